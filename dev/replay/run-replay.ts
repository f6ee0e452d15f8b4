import { capturingBundle } from '../../worker/replay/replay.ts';
import { askedHistories, checkServer, conclude } from './check.ts';
import { runCommand } from './options.ts';

const HELP = `perdure replay: replays histories of the server that TEMPORAL_ADDRESS names against this version's workflow
code, without running anything; run it before a deploy. It exits with 1 if one of them breaks.

usage: perdure replay [--last N | --session ID]
  --last N       the newest N histories (100)
  --session ID   those of one session`;

/** `perdure replay`. */
export async function runReplay(args: readonly string[]): Promise<void> {
  if (args.includes('--help') || args.includes('-h')) return console.log(HELP);
  await runCommand(async () => {
    const found = await askedHistories(args.length === 0 ? ['--last', '100'] : args);
    return conclude(await checkServer(await capturingBundle(), found ?? []));
  });
}
