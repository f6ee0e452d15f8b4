import type { ModelPrompt } from '../model-object.ts';
import { crewReply, escapeHtml, subjectOf } from './crew-reply.ts';
import { currentTurn, type SeenOutcome, outcomesOf } from './current-turn.ts';
import type { Reply } from './script-model.ts';

const INTRODUCTION =
  'I am a rehearsal model: I play a part and know nothing, so that everything around me can be tried.';
const HELP =
  'Ask me to build a site, with the word “build” in it, and I walk through building one. Configure a provider key to talk to a real model.';

/**
 * The next response, a function of the prompt alone. If the user's latest text contains "build": create a project (or
 * build the locked one again), write a page, complete the todo, and tell the user to publish or revert. With the tools of a
 * role in initiatives it plays that role.
 */
export function rehearsalReply(prompt: ModelPrompt, tools: readonly string[]): Reply {
  const { before, text: request, outcomes } = currentTurn(prompt);
  const reply = crewReply({ request, outcomes }, tools);
  if (reply !== undefined) return reply;
  if (!/\bbuild\b/i.test(request) || !tools.includes('build_and_deploy')) return say(`${INTRODUCTION}\n\n${HELP}`);
  if (outcomes.length === 0) return opening(before);
  return afterBuild(outcomes) ?? nextStep(outcomes, request);
}

function opening(before: ModelPrompt): Reply {
  const built = outcomesOf(before).some((outcome) => outcome.tool === 'build_and_deploy' && outcome.ok);
  return say(`${INTRODUCTION}\n\nLet me build that.`, build(!built));
}

/** The reply to a refused build; undefined if none was refused, or if the session is already building. */
function afterBuild(outcomes: readonly SeenOutcome[]): Reply | undefined {
  const builds = outcomes.filter((outcome) => outcome.tool === 'build_and_deploy');
  const last = builds.at(-1);
  if (!last || last.ok || /"building"/.test(reasonOf(last))) return undefined;
  if (builds.length === 1 && /locked/i.test(reasonOf(last))) {
    return say('This session has a project already, so I build in that one.', build(false));
  }
  if (builds.length === 1 && /no project/i.test(reasonOf(last))) {
    return say('There is no project yet, so I make a new one.', build(true));
  }
  return say(`I could not start to build: ${reasonOf(last)}`);
}

function nextStep(outcomes: readonly SeenOutcome[], request: string): Reply {
  const done = (tool: string) => outcomes.some((outcome) => outcome.tool === tool && outcome.ok);
  const failed = outcomes.at(-1);
  if (failed && !failed.ok && failed.tool !== 'build_and_deploy') return say(`That did not work: ${reasonOf(failed)}`);
  if (!done('write_file')) {
    const input = { path: 'index.html', content: page(request) };
    return say('Now the page itself.', { tool: 'write_file', input });
  }
  if (!done('todo_complete')) {
    return say('That was all there is to do.', { tool: 'todo_complete', input: { name: 'build' } });
  }
  return say('The site is built: look at index.html in the workspace, then publish it, or revert it to build on.');
}

function build(isNew: boolean): Reply['calls'][number] {
  return { tool: 'build_and_deploy', input: isNew ? { confirm_new_project: true } : {} };
}

function say(text: string, ...calls: Reply['calls']): Reply {
  return { text, calls };
}

function reasonOf({ ok, output }: SeenOutcome): string {
  return ok ? '' : String(output);
}

function page(request: string): string {
  const title = escapeHtml(subjectOf(request));
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>${title}</title>
    <style>
      body { font: 18px/1.6 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem; }
    </style>
  </head>
  <body>
    <h1>${title}</h1>
    <p>${escapeHtml(request.trim())}</p>
  </body>
</html>
`;
}
