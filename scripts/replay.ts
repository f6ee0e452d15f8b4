// `npm run replay`: replays the recorded histories against the workflow code as it is now. With `-- --last N` also the
// newest N histories of the server that the environment names: run it before a deploy. Fails naming what broke, and at
// which event.
import { isDeepStrictEqual, parseArgs } from 'node:util';
import path from 'node:path';
import { parseConfig } from '../config/config.ts';
import { HISTORIES, readHistories } from './histories/files.ts';
import { capturingBundle, type NamedHistory, replay, type Replayed } from './histories/replay.ts';
import { newestHistories } from './histories/server.ts';

const { values } = parseArgs({ options: { last: { type: 'string' } } });
const last = Number(values.last ?? 0);
if (!Number.isInteger(last) || last < 0) {
  console.error('--last: expected how many histories, such as 100');
  process.exit(2);
}

const bundle = await capturingBundle(path.join(import.meta.dirname, '..', 'workflows', 'index.ts'));
let broken = 0;

/** Replays histories and says what is wrong with those that something is wrong with. */
async function check<H extends NamedHistory>(histories: H[], judge: (result: Replayed<H>) => string | undefined) {
  for (const result of await replay(bundle, histories)) {
    const problem = judge(result);
    if (problem === undefined) continue;
    broken += 1;
    console.log(`${result.of.name}: ${problem}`);
  }
}

const recorded = await readHistories(HISTORIES);
await check(recorded, ({ of: { inputs }, broke, asked }) => {
  if (broke !== undefined) return `broke at ${broke}`;
  return isDeepStrictEqual(asked, inputs)
    ? undefined
    : 'replays, but asks for something else than its .inputs.json says';
});
console.log(`${recorded.length} recorded histories`);

if (last > 0) {
  const found = await newestHistories(parseConfig(process.env), last);
  const named = found.map(({ execution: { workflowId, runId }, history }) => ({
    name: `session ${workflowId}, run ${runId}`,
    history,
  }));
  await check(named, ({ broke }) => (broke === undefined ? undefined : `broke at ${broke}`));
  console.log(`${named.length} histories of the server`);
}
console.log(broken === 0 ? 'all of them replay' : `${broken} of them do not replay`);
process.exitCode = broken === 0 ? 0 : 1;
