// `npm start`: everything in one terminal, until Ctrl-C.
import path from 'node:path';
import { buildPage } from './build-page.ts';
import { runInTerminal } from './terminal.ts';

const root = path.join(import.meta.dirname, '..', '..');
// Without its page there is still the API, so a page that cannot be built stops nothing.
await buildPage().catch((error: unknown) => console.error('the chat page could not be built:', error));
await runInTerminal(process.env, {
  worker: path.join(root, 'worker', 'main.ts'),
  host: path.join(root, 'host', 'main.ts'),
});
