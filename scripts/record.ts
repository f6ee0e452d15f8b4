// `npm run record [-- <scenario>…]`: records the histories of test/histories/ anew by playing their scenarios.
// `npm run record -- --keep <change>`: the same, and keeps those that are there, for the old way of a `patched` change.
// `npm run record -- --inputs`: keeps the histories, and takes down anew what the workflow asks for when it replays them.
// `npm run record -- --from-server [--last N]`: saves the newest N histories of a running server, pseudonymized.
import path from 'node:path';
import { parseArgs } from 'node:util';
import { parseConfig } from '../config/config.ts';
import { scenarios } from '../test/histories/scenarios.ts';
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
import { capturingBundle, type NamedHistory, replay } from './histories/replay.ts';
import { newestHistories } from './histories/server.ts';

const { values, positionals } = parseArgs({
  options: {
    keep: { type: 'string' },
    inputs: { type: 'boolean' },
    'from-server': { type: 'boolean' },
    last: { type: 'string', default: '10' },
  },
  allowPositionals: true,
});
const config = parseConfig(process.env);
const workflows = path.join(import.meta.dirname, '..', 'workflows', 'index.ts');

if (values.inputs) {
  await save(await readHistories(HISTORIES));
} else if (values['from-server']) {
  const pseudonyms = new Pseudonyms();
  const found = await newestHistories(config, Number(values.last));
  await save(
    found.map(({ execution, history }) => ({
      name: `${FROM_SERVER}${execution.runId}`,
      history: pseudonyms.history(history),
    })),
  );
} else {
  const unknown = positionals.filter((name) => !scenarios.some((scenario) => scenario.name === name));
  if (unknown.length > 0) {
    throw new Error(`no scenario ${unknown.join(', ')}; there are ${scenarios.map(({ name }) => name).join(', ')}`);
  }
  const chosen = scenarios.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
  const recorded = await recordScenarios(chosen, config.dir, (line) => console.log(line));
  if (values.keep !== undefined) await keepHistories(HISTORIES, values.keep);
  else if (positionals.length === 0) await removeHistories(HISTORIES);
  for (const name of positionals) await removeHistories(HISTORIES, name);
  await save(recorded);
}

/** Writes histories with what the code asks for when it replays them. */
async function save(histories: NamedHistory[]): Promise<void> {
  for (const { of, broke, asked } of await replay(await capturingBundle(workflows), histories)) {
    if (broke !== undefined) throw new Error(`${of.name} does not replay with this code: it broke at ${broke}`);
    await writeHistory(HISTORIES, { ...of, inputs: asked });
  }
  console.log(`${histories.length} histories in ${path.relative(process.cwd(), HISTORIES)}`);
}
