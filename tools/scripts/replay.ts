// `npm run replay`: replays the recorded histories against the current workflow code. With `-- --last N` also the
// newest N histories of the server that the environment names, with `-- --session ses_…` those of one session: run it
// before a deploy. If a history breaks, it fails and names the history and the event.
import { isDeepStrictEqual } from 'node:util';
import { askedHistories, check, checkServer, conclude } from '../../dev/replay/check.ts';
import { runCommand } from '../../dev/replay/options.ts';
import { capturingBundle } from '../../worker/replay/replay.ts';
import { HISTORIES, readHistories } from './histories/files.ts';

await runCommand(async () => {
  // Reads from the server first, so that a wrong address is reported at once.
  const found = await askedHistories(process.argv.slice(2));
  const bundle = await capturingBundle();
  const recorded = await readHistories(HISTORIES);
  let broken = await check(bundle, recorded, ({ of: { inputs }, broke, asked }) => {
    if (broke !== undefined) return `broke at ${broke}`;
    return isDeepStrictEqual(asked, inputs)
      ? undefined
      : 'replays, but asks for something else than its .inputs.json says';
  });
  console.log(`${recorded.length} recorded histories`);
  if (found !== undefined) broken += await checkServer(bundle, found);
  return conclude(broken);
});
