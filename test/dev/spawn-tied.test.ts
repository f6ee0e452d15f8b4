import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { spawnTied } from '../../dev/spawn-tied.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';

const MODULE = new URL('../../dev/spawn-tied.ts', import.meta.url).href;

/** Whether a process is alive; a zombie is not. */
async function isAlive(pid: number): Promise<boolean> {
  const { existsSync, readFileSync } = await import('node:fs');
  if (!existsSync(`/proc/${pid}/stat`)) return false;
  return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.[0] !== 'Z';
}

/** Starts a parent process that starts `command` tied to itself. Returns the parent, and the command's pid. */
async function startParent(command: string[]) {
  const code = `
    import { spawnTied } from ${JSON.stringify(MODULE)};
    const [command, ...args] = ${JSON.stringify(command)};
    const stopPlan = [{ signal: 'SIGTERM', waitMs: 300 }];
    const child = await spawnTied(command, args, { stopPlan, output: 'ignore' });
    console.log(child.pid);
    setInterval(() => {}, 1000);
  `;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
  return { parent, pid: Number(line) };
}

describe('no process is left behind', () => {
  it('H1 a child ends when its parent is killed', async () => {
    const { parent, pid } = await startParent(['sleep', '1000']);
    expect(await isAlive(pid)).toBe(true);
    parent.kill('SIGKILL');
    await eventually(async () => expect(await isAlive(pid)).toBe(false));
  });

  it('H1 a child that ignores the signal is killed after the time-out', async () => {
    const { parent, pid } = await startParent(['sh', '-c', "trap '' TERM; while :; do sleep 0.05; done"]);
    parent.kill('SIGKILL');
    await eventually(async () => expect(await isAlive(pid)).toBe(false));
  });

  it("H1 a child's own children end with it", async () => {
    const child = await spawnTied('sh', ['-c', 'sleep 1000 & echo $!; wait'], { stopPlan: [], output: 'pipe' });
    const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
    await child.stop();
    await eventually(async () => expect(await isAlive(Number(line))).toBe(false));
  });
});

describe('an orderly stop', () => {
  it('H1 sends the signal of the plan, waits, and returns how the child ended', async () => {
    const script = "trap 'exit 7' INT; echo up; while :; do sleep 0.05; done";
    const stopPlan = [{ signal: 'SIGINT', waitMs: 5_000 }] as const;
    const child = await spawnTied('sh', ['-c', script], { stopPlan, output: 'pipe' });
    await once(createInterface({ input: child.stdout! }), 'line');
    expect(await child.stop()).toEqual({ code: 7, signal: null });
    expect(await child.exited).toEqual({ code: 7, signal: null });
  });

  it('H1 of a child that has already ended returns the same', async () => {
    const child = await spawnTied('sh', ['-c', 'exit 3'], { stopPlan: [], output: 'ignore' });
    expect(await child.exited).toEqual({ code: 3, signal: null });
    expect(await child.stop()).toEqual({ code: 3, signal: null });
  });
});
