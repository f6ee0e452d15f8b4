// The rehearsal model as a member of a crew (examples/crew): it plays the role whose tools it has.
import type { Json } from '../../domain/text.ts';
import type { SeenOutcome } from './current-turn.ts';
import type { Reply } from './script-model.ts';

const INTRODUCTION = 'I am a rehearsal model and play a part.';

/** The subject and the navigation of the site, as the architect decides them and the others read them. */
const SUBJECT = 'Subject of the site';
const NAVIGATION = 'Navigation';
const PAGES = ['index.html', 'menu.html', 'about.html'] as const;
/** Linked by every page, and in no task: the verifier has something to find. */
const FORGOTTEN = 'visit.html';

/** What the model has been asked in a turn, and what its tools have returned since. */
interface Turn {
  request: string;
  outcomes: readonly SeenOutcome[];
}

/** The members of what `initiative_read` returns that are used here. */
interface Read {
  position: { phase: number; phase_name: string };
  plan: { tasks: { task_id: string; status: string }[] };
  decisions: { context: string; decision: string }[];
  blockers: { id: string; description: string }[];
}

/** The next response of a member of a crew; undefined: these are no tools of one. A function of the prompt alone. */
export function crewReply(turn: Turn, tools: readonly string[]): Reply | undefined {
  if (!tools.includes('initiative_read')) return undefined;
  if (tools.includes('initiative_create')) return architect(turn);
  if (turn.outcomes.at(-1)?.tool === 'session_end') return say('My work session is over.');
  if (tools.includes('task_next')) return worker(turn);
  const reply = tools.includes('check_site') ? verifier(turn) : orchestrator(turn);
  return reply.calls.length === 0 ? say(reply.text, call('session_end')) : reply;
}

function architect({ request, outcomes: [made] }: Turn): Reply {
  if (made === undefined) return say(`${INTRODUCTION} First the plan.`, call('initiative_create', planOf(request)));
  return made.ok ? say('The work is planned.') : say(`I could not plan it: ${String(made.output)}`);
}

function planOf(request: string): Json {
  const phase = (name: string, plan: string, body: string, files: readonly string[]) => ({
    name,
    plans: [{ name: plan, body, tasks: files.map((file) => ({ name: `Write ${file}` })) }],
  });
  return {
    title: subjectOf(request),
    phases: [
      phase('Style', 'Looks', 'Every page will include both files.', ['css/site.css', 'js/site.js']),
      phase('Pages', 'Pages', 'Plain HTML, with a title and the navigation.', PAGES),
      phase('Finish', 'For visitors and robots', 'Small files that a site needs.', ['404.html', 'robots.txt']),
    ],
    decisions: [
      { context: SUBJECT, decision: subjectOf(request), reason: 'The user has asked for it.' },
      { context: NAVIGATION, decision: [...PAGES, FORGOTTEN].join(', '), reason: 'Visitors look for these.' },
    ],
    next_action: 'Write the style.',
  };
}

/** "Build a small site about a tea room!" is about "A small site about a tea room". */
export function subjectOf(request: string): string {
  const [, rest = ''] = /\bbuild\b(?:\s+(?:me|us|it))?\s*([^\n.!?]*)/i.exec(request) ?? [];
  const subject = rest.trim().slice(0, 60) || 'A new site';
  return subject.charAt(0).toUpperCase() + subject.slice(1);
}

/** One task a turn, as one work session. */
function worker({ outcomes }: Turn): Reply {
  const last = outcomes.at(-1);
  if (last === undefined) return say(INTRODUCTION, call('initiative_read'));
  if (!last.ok) return say('', call('session_end', { issues: [`${last.tool}: ${String(last.output)}`] }));
  const task = outputOf(outcomes, 'task_next') as { task_id: string; name: string } | null | undefined;
  if (last.tool === 'task_next' && task === null) return say('There is no task for me now.');
  const { task_id = '', name = '' } = task ?? {};
  const file = name.replace(/^Write /, '');
  switch (last.tool) {
    case 'initiative_read':
      return say('', call('task_next'));
    case 'task_next':
      return say(`I begin: ${name}.`, call('task_start', { task_id }));
    case 'task_start':
      return say('', call('write_file', { path: file, content: contentOf(file, decisionsIn(outcomes)) }));
    case 'write_file':
      return say('', call('task_progress', { task_id, note: `${file} is written` }));
    case 'task_progress':
      return say('', call('task_complete', { task_id, note: `${file} is written, as planned` }));
    default:
      return say('', call('session_end', { notes: `Wrote ${file}` }));
  }
}

function contentOf(file: string, decisions: ReadonlyMap<string, string>): string {
  const subject = decisions.get(SUBJECT) ?? 'A new site';
  if (file.endsWith('.css'))
    return 'body { font: 18px/1.6 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; }\n';
  if (file.endsWith('.js')) return `document.documentElement.classList.add('ready');\n`;
  if (!file.endsWith('.html')) return 'User-agent: *\nAllow: /\n';
  const links = (decisions.get(NAVIGATION) ?? '').split(', ').filter((each) => each !== '');
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>${escapeHtml(subject)}: ${file.replace('.html', '')}</title>
    <link rel="stylesheet" href="css/site.css">
    <script src="js/site.js" defer></script>
  </head>
  <body>
    <nav>${links.map((link) => `<a href="${link}">${link.replace('.html', '')}</a>`).join(' ')}</nav>
    <h1>${escapeHtml(subject)}</h1>
  </body>
</html>
`;
}

/** Checks the site, writes the result as a decision, and blocks what comes next while there are faults in a finished phase. */
function verifier({ request, outcomes }: Turn): Reply {
  const last = outcomes.at(-1);
  if (last === undefined) return say(INTRODUCTION, call('initiative_read'));
  if (!last.ok) return say(`That did not work: ${String(last.output)}`);
  if (last.tool === 'initiative_read') return say('', call('check_site'));
  const { faults, files } = outputOf(outcomes, 'check_site') as { faults: string[]; files: string[] };
  const done = (tool: string) => outcomes.filter((outcome) => outcome.tool === tool).length;
  if (/\breview\b/i.test(request)) {
    const note = `check_site: ${faults.join('; ') || 'no fault'}`;
    return done('review') === 0 ? say('', call('review', { note })) : say('It is reviewed.');
  }
  const [, phase = '?'] = /\bphase (\d+)/i.exec(request) ?? [];
  const { position, plan } = outputOf(outcomes, 'initiative_read') as Read;
  // Those that were bypassed are not active, so the message names them.
  const bypassed = [...request.matchAll(/\bblock-\d+/g)].map(([id]) => id);
  if (faults.length > 0 && done('blocker_add') === 0) {
    const blocked_tasks = plan.tasks.filter(({ status }) => status !== 'completed').map(({ task_id }) => task_id);
    const affects = [`Phase ${position.phase}: ${position.phase_name}`];
    return say(
      'Something is missing.',
      call('blocker_add', { description: faults.join('; '), affects, blocked_tasks }),
    );
  }
  const blocker = bypassed[done('blocker_resolve')];
  if (faults.length === 0 && blocker !== undefined) {
    return say('', call('blocker_resolve', { blocker, resolution: 'check_site finds no fault.' }));
  }
  if (done('decision_add') === 0) {
    const decision = faults.length === 0 ? 'passed' : 'not passed: see the blocker';
    const reason = faults.join('; ') || `check_site has read ${files.length} files and found no fault.`;
    return say('', call('decision_add', { context: `Verification of phase ${phase}`, decision, reason }));
  }
  if (done('state_update') === 0) {
    const resume_context = { files_modified_this_session: files };
    return say('', call('state_update', { next_action: `Go on after phase ${phase}.`, resume_context }));
  }
  return say(faults.length === 0 ? 'The site has no fault.' : 'The site has faults; they block what comes next.');
}

/** Lets the work go on: what is missing becomes tasks. */
function orchestrator({ outcomes }: Turn): Reply {
  const last = outcomes.at(-1);
  if (last === undefined) return say(INTRODUCTION, call('initiative_read'));
  if (!last.ok) return say(`That did not work: ${String(last.output)}`);
  const { blockers } = outputOf(outcomes, 'initiative_read') as Read;
  const next = blockers[outcomes.length - 1];
  if (next === undefined) return say('The work can go on.');
  const missing = new Set([...next.description.matchAll(/(\S+), which does not exist/g)].map(([, file]) => file));
  const workaround_tasks = [...missing].map((file) => `Write ${file}`);
  const workaround = 'What is missing is written first.';
  return say('', call('blocker_bypass', { blocker: next.id, workaround, workaround_tasks }));
}

function decisionsIn(outcomes: readonly SeenOutcome[]): ReadonlyMap<string, string> {
  const { decisions } = outputOf(outcomes, 'initiative_read') as Read;
  return new Map(decisions.map(({ context, decision }) => [context, decision]));
}

/** What the latest call of a tool has returned in this turn; undefined: it was not called. */
function outputOf(outcomes: readonly SeenOutcome[], tool: string): unknown {
  return outcomes.findLast((outcome) => outcome.tool === tool && outcome.ok)?.output;
}

function call(tool: string, input: Json = {}): Reply['calls'][number] {
  return { tool, input };
}

function say(text: string, ...calls: Reply['calls']): Reply {
  return { text, calls };
}

/** A text as the content of an element. */
export function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
