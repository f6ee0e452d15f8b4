// `npm start`: everything in one terminal, until Ctrl-C.
import path from 'node:path';
import { runInTerminal } from './terminal.ts';

const root = path.join(import.meta.dirname, '..');
await runInTerminal(process.env, {
  worker: path.join(root, 'worker', 'main.ts'),
  host: path.join(root, 'host', 'main.ts'),
});
