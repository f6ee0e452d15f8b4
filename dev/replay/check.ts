import { parseConfig } from '../../config/config.ts';
import { type NamedHistory, replay, type Replayed } from '../../worker/replay/replay.ts';
import { fromServer, parseOptions } from './options.ts';
import { serverHistories } from './server-histories.ts';

type Bundle = { codePath: string };

/** Replays histories and prints those that break; returns their number. */
export async function check<H extends NamedHistory>(
  bundle: Bundle,
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

/**
 * The histories that `--last N` or `--session ses_…` name, of the server that the environment names; undefined without
 * either.
 * @throws {UsageError | ConfigError | Error} naming the option or variable, or the server that cannot be reached
 */
export async function askedHistories(args: readonly string[]): Promise<NamedHistory[] | undefined> {
  const { values } = parseOptions({
    args: [...args],
    options: { last: { type: 'string' }, session: { type: 'string' } },
  });
  const which = fromServer(values);
  if (which === undefined) return undefined;
  const found = await serverHistories(parseConfig(process.env), which);
  return found.map(({ execution: { workflowId, runId }, history }) => ({
    name: `session ${workflowId}, run ${runId}`,
    history,
  }));
}

/** Replays the histories of a server; returns how many break. */
export async function checkServer(bundle: Bundle, histories: NamedHistory[]): Promise<number> {
  const broken = await check(bundle, histories, ({ broke }) => (broke === undefined ? undefined : `broke at ${broke}`));
  console.log(`${histories.length} histories of the server`);
  return broken;
}

/** Prints the result of all replays. @returns the exit code */
export function conclude(broken: number): number {
  console.log(broken === 0 ? 'all of them replay' : `${broken} of them do not replay`);
  return broken === 0 ? 0 : 1;
}
