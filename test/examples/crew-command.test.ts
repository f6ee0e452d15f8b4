// `npm run example:crew` as a user has it: one command that starts everything, works to the end, and ends on Ctrl-C.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { expect, it } from 'vitest';
import { freePort } from '../../dev/ports.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { processesOf } from '../../tools/chaos/promises/processes.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { startBrowser, WAIT } from '../../tools/test-kit/browser.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { temporalCli, withSharedBundles } from '../../tools/test-kit/shared-caches.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const DONE = { timeout: 240_000 };

/** Starts the script of package.json without npm. */
async function startCommand(dir: string, port: number) {
  const [node, ...args] = packageJson.scripts['example:crew'].split(' ');
  expect(node).toBe('node');
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { PATH: process.env['PATH'], PERDURE_DIR: dir, PORT: String(port), ...temporalCli() },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const run = { child, output: '', exited: once(child, 'exit') as Promise<[number | null]> };
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (run.output += chunk.toString()));
  // Its watchers end all that it has started.
  afterFile(async () => {
    child.kill('SIGKILL');
    await eventually(async () => expect(await processesOf(dir)).toEqual([]));
  });
  return run;
}

it(
  'I7 H1 one command starts a crew that completes its initiative, the page shows it, and Ctrl-C leaves no process',
  { timeout: patient(DONE.timeout + 60_000) },
  async () => {
    const dir = scratchDir();
    await withSharedBundles(dir);
    const port = await freePort();
    const run = await startCommand(dir, port);
    const completed = /^crew +the initiative is completed: \S+\/api\/initiatives\/(ini_\w+)\/STATE\.md$/m;
    const isDone = eventually(() => expect(run.output).toMatch(completed), DONE);
    await Promise.race([isDone, run.exited]);
    expect(run.output).toMatch(completed);
    const [, id] = completed.exec(run.output)!;

    const page = await (await startBrowser()).newPage();
    page.setDefaultTimeout(WAIT.timeout);
    await page.goto(`http://127.0.0.1:${port}/i`);
    await page.getByRole('list', { name: 'Your initiatives' }).getByText('completed', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'A small site about a tea room' }).click();
    await page.getByRole('link', { name: 'Tasks 8/8' }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/i/${id}`);

    expect((await processesOf(dir)).length).toBeGreaterThan(1);
    run.child.kill('SIGINT');
    expect((await run.exited)[0]).toBe(0);
    await eventually(async () => expect(await processesOf(dir)).toEqual([]));
  },
);
