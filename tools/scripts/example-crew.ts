// `npm run example:crew`: everything that `npm start` runs, with a crew that builds a site as an initiative.
import path from 'node:path';
import { runInTerminal } from '../../dev/terminal.ts';
import { runCrew } from '../../examples/crew/crew.ts';
import { buildPage } from './build-page.ts';

const USER = 'crew';
const REQUEST = 'Build a small site about a tea room.';

const say = (line: string) => console.log(`${'crew'.padEnd(12)}${line}`);
const agents = path.join(import.meta.dirname, '..', '..', 'examples', 'crew', 'agents.ts');
await buildPage().catch((error: unknown) => console.error('the chat page could not be built:', error));
// The crew and the page's visitor are the same user, so that the page shows its sessions.
const env = { PERDURE_USER: USER, ...process.env, PERDURE_AGENTS: agents };
const addresses = await runInTerminal(env);
if (addresses !== undefined) {
  const request = process.argv.slice(2).join(' ') || REQUEST;
  const { signal } = new AbortController();
  try {
    const id = await runCrew({ url: addresses.page, user: env.PERDURE_USER, request, say, signal });
    say(`the initiative is completed: ${addresses.api}/initiatives/${id}/STATE.md`);
  } catch (error) {
    say(`stopped: ${String(error)}`);
    process.exitCode = 1;
  }
}
