// `npm run bench`: measures what docs/performance.md speaks of, against the floor of the same run, on servers of its own.
import { mkdir, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { parseConfig } from '../config/config.ts';
import { type Figure, passed, type Result } from './figure.ts';
import { abort } from './figures/abort.ts';
import { history } from './figures/history.ts';
import { longSession } from './figures/long-session.ts';
import { throughput } from './figures/throughput.ts';
import { firstChunk, plainTurn, toolTurn } from './figures/turns.ts';
import { statements, wal } from './figures/writes.ts';
import { openFloor } from './floor.ts';
import { parseOptions } from './options.ts';
import { withSystem } from './servers.ts';
import { tableOf } from './table.ts';

const FIGURES: readonly Figure[] = [
  plainTurn,
  toolTurn,
  firstChunk,
  longSession,
  history,
  abort,
  throughput,
  wal,
  statements,
];

const say = (line: string) => console.error(line);

async function measure(): Promise<Result[]> {
  const names = FIGURES.map((figure) => figure.name);
  const { rounds, only } = parseOptions(process.argv.slice(2), names);
  return withSystem(say, async (system) => {
    const floor = await openFloor(system);
    const results: Result[] = [];
    for (const figure of FIGURES) {
      if (only.length > 0 && !only.includes(figure.name)) continue;
      say(`measuring ${figure.name}`);
      results.push(...(await figure.measure({ system, floor, rounds, say })));
    }
    return results;
  });
}

/** Keeps the results beside everything else that is not for git. Answers the file. */
async function keep(results: readonly Result[]): Promise<string> {
  const dir = path.join(parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] }).dir, 'bench');
  await mkdir(dir, { recursive: true });
  const at = new Date().toISOString();
  const file = path.join(dir, `${at.replaceAll(':', '-')}.json`);
  const machine = { cpu: os.cpus()[0]?.model, cores: os.cpus().length, node: process.version };
  const judged = results.map((result) => ({ ...result, passed: passed(result) }));
  await writeFile(file, `${JSON.stringify({ at, machine, results: judged }, undefined, 2)}\n`);
  return file;
}

const results = await measure();
console.log(tableOf(results));
console.log(`kept in ${await keep(results)}`);
process.exitCode = results.some((result) => passed(result) === false) ? 1 : 0;
