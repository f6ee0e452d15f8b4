// `npm run bench`: measures the figures of docs/performance.md on servers of its own, with the floor in the same run.
import { mkdir, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import pTimeout from 'p-timeout';
import { parseConfig } from '../../config/config.ts';
import { type Bench, type Figure, passed, type Result } from './figure.ts';
import { abort } from './figures/abort.ts';
import { alarm } from './figures/alarm.ts';
import { approvals, waiting } from './figures/approvals.ts';
import { backToBack } from './figures/back-to-back.ts';
import { death } from './figures/death.ts';
import { history } from './figures/history.ts';
import { hostKilled } from './figures/host-killed.ts';
import { idleInitiatives } from './figures/idle-initiatives.ts';
import { idleReaders, soak } from './figures/idle-readers.ts';
import { idle, manyIdle } from './figures/idle.ts';
import { initiativeHistory } from './figures/initiative-history.ts';
import { initiatives } from './figures/initiatives.ts';
import { liveStreams } from './figures/live-streams.ts';
import { longSession } from './figures/long-session.ts';
import { longStreams } from './figures/long-streams.ts';
import { overload } from './figures/overload.ts';
import { pageScores } from './figures/page-scores.ts';
import { page } from './figures/page.ts';
import { prompt } from './figures/prompt.ts';
import { snapshots } from './figures/snapshots.ts';
import { stages } from './figures/stages.ts';
import { state } from './figures/state.ts';
import { statements } from './figures/statements.ts';
import { subagents } from './figures/subagents.ts';
import { throughput } from './figures/throughput.ts';
import { toolCpu } from './figures/tool-cpu.ts';
import { transfer } from './figures/transfer.ts';
import { firstChunk, plainTurn, toolTurn } from './figures/turns.ts';
import { uploads } from './figures/uploads.ts';
import { volume } from './figures/volume.ts';
import { wal } from './figures/wal.ts';
import { workLog } from './figures/work-log.ts';
import { openFloor } from './floor.ts';
import { parseOptions } from './options.ts';
import { compare } from './rivals.ts';
import { withSystem } from './servers.ts';
import { markdownOf, tablesOf } from './table.ts';

/** In order of measurement: figures that fill the worker's memory come last. */
const FIGURES: readonly Figure[] = [
  plainTurn,
  toolTurn,
  firstChunk,
  prompt,
  throughput,
  statements,
  wal,
  abort,
  history,
  longSession,
  idle,
  hostKilled,
  page,
  backToBack,
  stages,
  toolCpu,
  state,
  approvals,
  liveStreams,
  longStreams,
  subagents,
  initiatives,
  initiativeHistory,
  overload,
  death,
  alarm,
  pageScores,
  volume,
  uploads,
  transfer,
  workLog,
  snapshots,
  manyIdle,
  idleInitiatives,
  waiting,
  idleReaders,
  soak,
];

/** A figure that takes longer than this has failed. */
const FIGURE_MS = 120_000;
/** No figure starts after this, so that the run ends within eight minutes. */
const LAST_START_MS = 5.5 * 60_000;

const say = (line: string) => console.error(line);

/** Measures one figure; a failure becomes a result, and the other figures are still measured. */
async function measure(figure: Figure, bench: Bench): Promise<Result[]> {
  const failure = (failed: string): Result[] => [{ name: figure.name, value: Number.NaN, unit: '', failed }];
  if (performance.now() > LAST_START_MS) return failure('no time was left');
  say(`measuring ${figure.name}`);
  try {
    return await pTimeout(figure.measure(bench), { milliseconds: figure.onRequest?.withinMs ?? FIGURE_MS });
  } catch (error) {
    return failure(String(error));
  }
}

/** Writes the results to the folder of generated files; returns the file name. */
async function keep(results: readonly Result[]): Promise<string> {
  const dir = path.join(parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] }).dir, 'bench');
  await mkdir(dir, { recursive: true });
  const at = new Date().toISOString();
  const file = path.join(dir, `${at.replaceAll(':', '-')}.json`);
  const machine = { cpu: os.cpus()[0]?.model, cores: os.cpus().length, node: process.version, load: os.loadavg() };
  const judged = results.map((result) => ({ ...result, passed: passed(result) }));
  const kept = { at, machine, seconds: performance.now() / 1000, results: judged, comparison: compare(results) };
  await writeFile(file, `${JSON.stringify(kept, undefined, 2)}\n`);
  return file;
}

const { rounds, minutes, count, only, markdown } = parseOptions(
  process.argv.slice(2),
  FIGURES.map((figure) => figure.name),
);
const results = await withSystem(say, async (system) => {
  const bench = { system, floor: await openFloor(system), rounds, minutes, count, say };
  const measured: Result[] = [];
  for (const figure of FIGURES) {
    if (only.length === 0 ? figure.onRequest === undefined : only.includes(figure.name))
      measured.push(...(await measure(figure, bench)));
  }
  return measured;
});
console.log(markdown ? markdownOf(results) : tablesOf(results));
say(`kept in ${await keep(results)}`);
process.exit(results.some((result) => passed(result) === false) ? 1 : 0);
