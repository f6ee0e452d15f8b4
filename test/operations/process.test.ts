// How programs end.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';

/** A program that logs a line longer than a pipe holds, then one more, and ends as `end` says. */
function started(end: string, env: NodeJS.ProcessEnv = {}): ChildProcess {
  const program = `
    import { createLogger } from './config/log.ts';
    import { runProcess } from './config/process.ts';
    await runProcess({ name: 'example', does: 'nothing' }, async () => {
      const log = createLogger('example', { logLevel: 'info' });
      log.info('x'.repeat(2_000_000));
      log.info('then');
      ${end}
    });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
  });
  afterFile(() => child.kill('SIGKILL'));
  return child;
}

/** The beginnings of the lines that a program writes to stdout. */
async function outputOf({ stdout }: ChildProcess): Promise<string[]> {
  const lines = (await text(stdout!)).trimEnd().split('\n');
  return lines.map((line) => (JSON.parse(line) as { msg: string }).msg.slice(0, 10));
}

it.each([
  ['', ['xxxxxxxxxx', 'then']],
  ['throw new Error("failed")', ['xxxxxxxxxx', 'then', 'failed']],
  [
    'setTimeout(() => { throw new Error("uncaught") }); await new Promise(() => {})',
    ['xxxxxxxxxx', 'then', 'uncaught'],
  ],
  ['setInterval(() => log.warn("later"), 1); throw new Error("failed")', ['xxxxxxxxxx', 'then', 'failed']],
])('H1 a program ends after its log has been written, whole and in order: %s', async (end, lines) => {
  expect(await outputOf(started(end))).toEqual(lines);
});

it.each(['', 'throw new Error("failed")'])('H1 a program ends although nobody reads its log: %s', async (end) => {
  const child = started(end);
  child.stdout!.pause();
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
});

it('Q3 the last line of a program has no secret of its environment, even of one that is not usable', async () => {
  const env = {
    OPENAI_API_KEY: 'sk-canary-1\n',
    OPENAI_BASE_URL: 'https://canary-2@gateway/v1',
    ANTHROPIC_BASE_URL: 'https://someone:canary-3@gateway:port/v1',
    PERDURE_PORT: 'misspelt',
  };
  const quoted = `Headers.append: "Bearer sk-canary-1" is invalid; ${env.OPENAI_BASE_URL}; canary-2; canary-3`;
  const error = `Object.assign(new Error(${JSON.stringify(quoted)}), { cause: new Error('sk-canary-1 again') })`;
  const warn = `process.emitWarning('canary-2'); await new Promise(setImmediate);`;
  const output = await text(started(`${warn} throw ${error}`, env).stdout!);
  expect(output).toContain('Headers.append: \\"Bearer [redacted]\\"');
  expect(output).not.toContain('canary');
});
