// `npm start`: everything in one terminal, until Ctrl-C.
import path from 'node:path';
import { buildPage } from './build-page.ts';
import { runInTerminal } from './terminal.ts';

const root = path.join(import.meta.dirname, '..', '..');
// The API works without the page, so a failed build of the page is not fatal.
await buildPage().catch((error: unknown) => console.error('the chat page could not be built:', error));
await runInTerminal(process.env, {
  worker: path.join(root, 'worker', 'main.ts'),
  host: path.join(root, 'host', 'main.ts'),
});
