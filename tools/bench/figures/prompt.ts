import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { assemblePrompt } from '../../../agent/prompt/assemble-prompt.ts';
import { instructionsOfTools } from '../../../store/instructions.ts';
import { ping, PROMPT } from '../agents.ts';
import { now } from '../clock.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import { MODEL, USER } from '../names.ts';
import { median, spread } from '../statistics.ts';

const run = promisify(execFile);

const TIMES = 200;
const WARM_UP = 20;
const INSTRUCTION_BYTES = 8 * 1024;
const FILES = 200;
const FILE_BYTES = 4 * 1024;
/** How old files have to be before git is not asked again, and a little more. */
const SETTLED_MS = 1_500;
const TARGET = { atMost: 1 };

/** A workspace as of a session, below the folder of its user. */
interface Workspace {
  boundary: string;
  workspaceRoot: string;
}

async function inWorkspace<T>(use: (workspace: Workspace) => Promise<T>): Promise<T> {
  const boundary = await realpath(await mkdtemp(path.join(tmpdir(), 'perdure-bench-prompt-')));
  try {
    const workspaceRoot = path.join(boundary, USER, 'site');
    await mkdir(workspaceRoot, { recursive: true });
    return await use({ boundary, workspaceRoot });
  } finally {
    await rm(boundary, { recursive: true, force: true });
  }
}

/** Milliseconds of each of many assemblies, as the worker does it for a turn; `change` is called before each. */
async function assemblies(
  { system: { db } }: Bench,
  workspace: Workspace,
  change?: (n: number) => Promise<void>,
): Promise<number[]> {
  const root = path.relative(workspace.boundary, workspace.workspaceRoot);
  const samples: number[] = [];
  for (let n = -WARM_UP; n < TIMES; n += 1) {
    await change?.(n);
    const from = now();
    await assemblePrompt({
      ...workspace,
      agent: { prompt: PROMPT, tools: [ping] },
      writtenByTools: (found) => instructionsOfTools(db, root, found),
      date: '2026-03-01',
      model: MODEL,
    });
    if (n >= 0) samples.push(now() - from);
  }
  return samples;
}

async function writeInstructions({ boundary, workspaceRoot }: Workspace): Promise<void> {
  for (const folder of [boundary, path.dirname(workspaceRoot), workspaceRoot]) {
    await writeFile(path.join(folder, 'AGENTS.md'), 'Be brief. '.repeat(INSTRUCTION_BYTES / 10));
  }
}

async function makeRepository({ workspaceRoot: cwd }: Workspace): Promise<void> {
  for (let n = 0; n < FILES; n += 1) {
    const folder = path.join(cwd, `part-${n % 8}`);
    await mkdir(folder, { recursive: true });
    await writeFile(path.join(folder, `${n}.txt`), 'x'.repeat(FILE_BYTES));
  }
  const identity = ['-c', 'user.name=bench', '-c', 'user.email=bench@example.org'];
  for (const args of [['init'], ['add', '.'], ['commit', '-m', 'all']])
    await run('git', [...identity, ...args], { cwd });
}

function resultOf(name: string, samples: readonly number[], target?: Result['target']): Result {
  return {
    name: `prompt: ${name}`,
    value: median(samples),
    unit: 'ms',
    ...(target && { target }),
    detail: spread(samples),
  };
}

/** How long the prompt of a turn takes while nothing changes; with instruction files Postgres is asked who wrote them. */
export const prompt: Figure = {
  name: 'prompt',
  measure: (bench) =>
    inWorkspace(async (workspace) => {
      const results = [resultOf('plain', await assemblies(bench, workspace), TARGET)];
      await writeInstructions(workspace);
      results.push(resultOf('three instruction files of 8 KB', await assemblies(bench, workspace), TARGET));
      await makeRepository(workspace);
      await delay(SETTLED_MS);
      const clean = await assemblies(bench, workspace);
      const change = (n: number) => writeFile(path.join(workspace.workspaceRoot, 'part-0', '0.txt'), `changed ${n}`);
      const changed = await assemblies(bench, workspace, change);
      await delay(SETTLED_MS);
      const dirty = await assemblies(bench, workspace);
      const repository = `the same in a git repository of ${FILES} files`;
      return [
        ...results,
        resultOf(`${repository}, clean`, clean, TARGET),
        resultOf(`${repository}, dirty`, dirty, TARGET),
        resultOf(`${repository}, after a change`, changed),
      ];
    }),
};
