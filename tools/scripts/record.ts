// `npm run record [-- <scenario>…]`: plays the scenarios of test/histories/ and replaces their recordings.
// `npm run record -- --keep <change>`: the same, but keeps the existing recordings, for the old way of a `patched` change.
// `npm run record -- --inputs`: keeps the histories, and records the inputs again from a replay with the current code.
// `npm run record -- --last N`, `-- --session ses_…`: saves histories of the server that the environment names, the newest
// N or those of one session, pseudonymized. `--out <folder>` saves them elsewhere.
import path from 'node:path';
import { parseConfig } from '../../config/config.ts';
import { type FromServer, fromServer, parseOptions, runCommand, UsageError } from '../../dev/replay/options.ts';
import { serverHistories } from '../../dev/replay/server-histories.ts';
import { scenarios } from '../../test/histories/scenarios.ts';
import { capturingBundle, type NamedHistory, replay } from '../../worker/replay/replay.ts';
import {
  FROM_SERVER,
  HISTORIES,
  keepHistories,
  readHistories,
  removeHistories,
  writeHistory,
} from './histories/files.ts';
import { Pseudonyms } from './histories/pseudonyms.ts';
import { recordScenarios } from './histories/recording.ts';

/** Writes histories with their inputs, taken from a replay. `clear` makes room for them once all have replayed. */
async function save(histories: NamedHistory[], dir = HISTORIES, clear = async () => {}): Promise<number> {
  const replayed = await replay(await capturingBundle(), histories);
  for (const { of, broke } of replayed) {
    if (broke !== undefined) throw new Error(`${of.name} does not replay with this code: it broke at ${broke}`);
  }
  await clear();
  for (const { of, asked } of replayed) await writeHistory(dir, { ...of, inputs: asked });
  console.log(`${histories.length} histories in ${path.relative(process.cwd(), dir)}`);
  return 0;
}

async function pseudonymized(which: FromServer): Promise<NamedHistory[]> {
  const pseudonyms = new Pseudonyms();
  const found = await serverHistories(parseConfig(process.env), which);
  return found.map(({ execution, history }) => ({
    name: `${FROM_SERVER}${execution.runId}`,
    history: pseudonyms.history(history),
  }));
}

async function recordAnew(names: readonly string[], keep: string | undefined): Promise<number> {
  const unknown = names.filter((name) => !scenarios.some((scenario) => scenario.name === name));
  if (unknown.length > 0) {
    const known = scenarios.map(({ name }) => name).join(', ');
    throw new UsageError(`no scenario ${unknown.join(', ')}; there are ${known}`);
  }
  const chosen = scenarios.filter(({ name }) => names.length === 0 || names.includes(name));
  const recorded = await recordScenarios(chosen, parseConfig(process.env).dir, (line) => console.log(line));
  return save(recorded, HISTORIES, async () => {
    if (keep !== undefined) await keepHistories(HISTORIES, keep);
    else if (names.length === 0) await removeHistories(HISTORIES);
    for (const name of names) await removeHistories(HISTORIES, name);
  });
}

await runCommand(async () => {
  const { values, positionals } = parseOptions({
    options: {
      keep: { type: 'string' },
      inputs: { type: 'boolean' },
      last: { type: 'string' },
      session: { type: 'string' },
      out: { type: 'string' },
    },
    allowPositionals: true,
  });
  if (values.inputs) return save(await readHistories(HISTORIES));
  const which = fromServer(values);
  if (which !== undefined) return save(await pseudonymized(which), values.out && path.resolve(values.out));
  if (values.out !== undefined) throw new UsageError('--out: expected with --last or --session');
  return recordAnew(positionals, values.keep);
});
