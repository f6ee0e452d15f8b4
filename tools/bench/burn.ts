// Keeps a core busy until its parent process ends.
import { serveParent } from './child.ts';

/** Time between two checks for the parent. */
const SLICE_MS = 20;

serveParent({});
function burn(): void {
  const until = performance.now() + SLICE_MS;
  while (performance.now() < until);
  setImmediate(burn);
}
burn();
