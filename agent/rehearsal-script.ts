import type { ModelPrompt } from './model-object.ts';

/** A response of the rehearsal model: text, a tool call, or both. */
export interface Reply {
  text: string;
  call?: { toolName: string; input: Record<string, unknown> };
}

const INTRODUCTION =
  'I am a rehearsal model: I play a part and know nothing, so that everything around me can be tried.';
const HELP =
  'Ask me to build a site, with the word “build” in it, and I walk through building one. Configure a provider key to talk to a real model.';

interface Outcome {
  toolName: string;
  ok: boolean;
  text: string;
}

/**
 * The next response, a function of the prompt alone. If the user's latest text contains "build": create a project (or
 * build the locked one again), write a page, complete the todo, and tell the user to publish or revert.
 */
export function nextReply(prompt: ModelPrompt, tools: readonly string[]): Reply {
  const lastUser = prompt.findLastIndex((message) => message.role === 'user');
  const request = lastUser < 0 ? '' : textOf(prompt[lastUser]);
  if (!/\bbuild\b/i.test(request) || !tools.includes('build_and_deploy')) return { text: `${INTRODUCTION}\n\n${HELP}` };
  const outcomes = outcomesOf(prompt.slice(lastUser + 1));
  if (outcomes.length === 0) return opening(prompt.slice(0, lastUser));
  return afterBuild(outcomes) ?? nextStep(outcomes, request);
}

function opening(before: ModelPrompt): Reply {
  const built = outcomesOf(before).some((outcome) => outcome.toolName === 'build_and_deploy' && outcome.ok);
  return { text: `${INTRODUCTION}\n\nLet me build that.`, call: build(!built) };
}

/** The reply to a refused build; undefined if none was refused, or if the session is already building. */
function afterBuild(outcomes: readonly Outcome[]): Reply | undefined {
  const builds = outcomes.filter((outcome) => outcome.toolName === 'build_and_deploy');
  const last = builds.at(-1);
  if (!last || last.ok || /"building"/.test(last.text)) return undefined;
  if (builds.length === 1 && /locked/i.test(last.text)) {
    return { text: 'This session has a project already, so I build in that one.', call: build(false) };
  }
  if (builds.length === 1 && /no project/i.test(last.text)) {
    return { text: 'There is no project yet, so I make a new one.', call: build(true) };
  }
  return { text: `I could not start to build: ${last.text}` };
}

function nextStep(outcomes: readonly Outcome[], request: string): Reply {
  const done = (toolName: string) => outcomes.some((outcome) => outcome.toolName === toolName && outcome.ok);
  const failed = outcomes.at(-1);
  if (failed && !failed.ok && failed.toolName !== 'build_and_deploy')
    return { text: `That did not work: ${failed.text}` };
  if (!done('write_file')) {
    const input = { path: 'index.html', content: page(request) };
    return { text: 'Now the page itself.', call: { toolName: 'write_file', input } };
  }
  if (!done('todo_complete')) {
    return { text: 'That was all there is to do.', call: { toolName: 'todo_complete', input: { name: 'build' } } };
  }
  return { text: 'The site is built: look at index.html in the workspace, then publish it, or revert it to build on.' };
}

function build(isNew: boolean): NonNullable<Reply['call']> {
  return { toolName: 'build_and_deploy', input: isNew ? { confirm_new_project: true } : {} };
}

function outcomesOf(messages: ModelPrompt): Outcome[] {
  return messages.flatMap((message) => {
    if (message.role !== 'tool') return [];
    return message.content.flatMap((part) => {
      if (part.type !== 'tool-result') return [];
      const ok = part.output.type === 'text' || part.output.type === 'json' || part.output.type === 'content';
      const text = part.output.type === 'error-text' ? part.output.value : '';
      return [{ toolName: part.toolName, ok, text }];
    });
  });
}

function textOf(message: ModelPrompt[number] | undefined): string {
  if (message?.role !== 'user') return '';
  return message.content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
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

/** "Please build me a small site about owls!" is about "A small site about owls". */
function subjectOf(request: string): string {
  const [, rest = ''] = /\bbuild\b(?:\s+(?:me|us|it))?\s*([^\n.!?]*)/i.exec(request) ?? [];
  const subject = rest.trim().slice(0, 60) || 'A new site';
  return subject.charAt(0).toUpperCase() + subject.slice(1);
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
