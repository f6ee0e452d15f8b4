// `npm run replay`: replays the recorded histories against the current workflow code. With `-- --last N` also the
// newest N histories of the server that the environment names, with `-- --session ses_…` those of one session: run it
// before a deploy. If a history breaks, it fails and names the history and the event.
import { isDeepStrictEqual } from 'node:util';
import { parseConfig } from '../../config/config.ts';
import { HISTORIES, readHistories } from './histories/files.ts';
import { fromServer, parseOptions, runCommand } from './histories/options.ts';
import { capturingBundle, type NamedHistory, replay, type Replayed } from './histories/replay.ts';
import { serverHistories } from './histories/server.ts';

/** Replays histories and prints those that break; returns their number. */
async function check<H extends NamedHistory>(
  bundle: { codePath: string },
  histories: H[],
  judge: (result: Replayed<H>) => string | undefined,
): Promise<number> {
  let broken = 0;
  for (const result of await replay(bundle, histories)) {
    const problem = judge(result);
    if (problem === undefined) continue;
    broken += 1;
    console.log(`${result.of.name}: ${problem}`);
  }
  return broken;
}

await runCommand(async () => {
  const { values } = parseOptions({ options: { last: { type: 'string' }, session: { type: 'string' } } });
  const which = fromServer(values);
  // Reads from the server first, so that a wrong address is reported at once.
  const found = which === undefined ? [] : await serverHistories(parseConfig(process.env), which);
  const bundle = await capturingBundle();
  const recorded = await readHistories(HISTORIES);
  let broken = await check(bundle, recorded, ({ of: { inputs }, broke, asked }) => {
    if (broke !== undefined) return `broke at ${broke}`;
    return isDeepStrictEqual(asked, inputs)
      ? undefined
      : 'replays, but asks for something else than its .inputs.json says';
  });
  console.log(`${recorded.length} recorded histories`);
  if (which !== undefined) {
    const named = found.map(({ execution: { workflowId, runId }, history }) => ({
      name: `session ${workflowId}, run ${runId}`,
      history,
    }));
    broken += await check(bundle, named, ({ broke }) => (broke === undefined ? undefined : `broke at ${broke}`));
    console.log(`${named.length} histories of the server`);
  }
  console.log(broken === 0 ? 'all of them replay' : `${broken} of them do not replay`);
  return broken === 0 ? 0 : 1;
});
