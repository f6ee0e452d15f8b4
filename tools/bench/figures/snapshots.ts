import { randomBytes, randomUUID } from 'node:crypto';
import { lstat, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SNAPSHOTS_FOLDER, userFolder } from '../../../workspaces/paths.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { USER } from '../names.ts';
import { median, spread } from '../statistics.ts';
import { turn } from '../turn.ts';

const SITES = [
  { files: 100, bytes: 20_000 },
  { files: 1_000, bytes: 50_000 },
];
const KINDS = ['off', 'copy', 'git'];
const CHANGED = 10;
const TURNS_A_ROUND = 4;
/** Users do not send messages faster. Git reads a file again that has changed within two seconds. */
const PAUSE_MS = 2_100;

/** What a plain turn of the reference agent takes with its snapshots, and what they take on disk. */
export const snapshots: Figure = {
  name: 'snapshots',
  onRequest: { withinMs: 7 * 60_000 },
  measure: async (bench) => {
    const workspaces = await mkdtemp(path.join(tmpdir(), 'perdure-bench-snapshots-'));
    try {
      const results: Result[] = [];
      for (const kind of KINDS) {
        await bench.system.restartWorker({
          PERDURE_AGENTS: '',
          PERDURE_SNAPSHOTS: kind,
          PERDURE_WORKSPACES: workspaces,
        });
        for (const site of SITES) results.push(...(await turns(bench, kind, site, userFolder(workspaces, USER))));
      }
      return results.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    } finally {
      await bench.system.restartWorker();
      await rm(workspaces, { recursive: true, force: true });
    }
  },
};

/** Turns of a session before each of which some files have changed. */
async function turns(
  { system, floor, rounds }: Bench,
  kind: string,
  { files, bytes }: (typeof SITES)[number],
  home: string,
): Promise<Result[]> {
  const session = await system.client.open('site-builder');
  const bare = floor();
  const ours: number[] = [];
  const floors: number[] = [];
  const count = TURNS_A_ROUND * rounds;
  await writeFiles(
    path.join(home, session),
    Array.from({ length: files }, (_, n) => n),
    bytes,
  );
  for (let n = -1; n < count; n += 1) {
    const changed = Array.from({ length: CHANGED }, (_, k) => ((n + 1) * CHANGED + k) % files);
    await writeFiles(path.join(home, session), changed, bytes);
    const { total } = await bare.turn({ key: randomUUID() });
    await delay(PAUSE_MS);
    const taken = await turn(system, session);
    if (n < 0) continue;
    floors.push(total);
    ours.push(taken.total);
  }
  const name = `${files} files of ${bytes / 1000} KB, snapshots: ${kind}`;
  const onDisk = (await bytesIn(path.join(home, SNAPSHOTS_FOLDER, session))) / 1e6;
  return [
    { name, value: median(ours), unit: 'ms', floor: median(floors), detail: spread(ours) },
    ...(kind === 'off' ? [] : [{ name: `${name}, on disk`, value: onDisk, unit: 'MB' }]),
  ];
}

/** Half of them are text, which compresses. */
async function writeFiles(root: string, numbers: readonly number[], bytes: number): Promise<void> {
  for (const n of numbers) {
    const file = path.join(root, `folder-${n % 10}`, `${n}`);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, n % 2 === 0 ? randomBytes(bytes) : randomBytes(bytes / 2).toString('hex'));
  }
}

/** What a folder takes on disk. */
async function bytesIn(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const stats = await Promise.all(names.map((name) => lstat(path.join(folder, name))));
  return stats.reduce((sum, { blocks }) => sum + blocks * 512, 0);
}
