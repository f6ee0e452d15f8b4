// `npm run replay` and `npm run record` against a server with more than a hundred sessions.
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { COMPILE_CACHE } from '../../dev/node-process.ts';
import { readHistories } from '../../tools/scripts/histories/files.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freePort } from '../../tools/test-kit/servers.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { listExecutions } from '../../worker/replay/history.ts';
import { readable } from '../../worker/replay/payloads.ts';
import { replay } from '../../worker/replay/replay.ts';
import { workflowBundle } from '../../worker/sandbox/bundle.ts';
import { signals, updates } from '../../workflows/definitions.ts';
import { quiet } from '../histories/scenario.ts';

const root = path.join(import.meta.dirname, '..', '..');
const SESSIONS = 110;
const USER = 'grace.hopper@example.com';
const PROJECT = 'prj-of-grace-hopper';
const REASON = 'grace said so';

let runtime: TestRuntime;
/** A session that has continued as new. */
let chained: TestSession;
let total: number;
beforeAll(async () => {
  runtime = await startRuntime({
    settings: { continueAsNewEvents: 30 },
    script: (request) => {
      if (lastUserText(request) === 'hang') return [say('words'), hang()];
      return request.messages.at(-1)?.role === 'tool'
        ? [say('It is done.')]
        : [callTool('call_1', 'write_file', { path: 'a', content: 'b' })];
    },
  });
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => TestSession.open(runtime, { user: USER })));
  await Promise.all(sessions.map((session) => session.command(updates.openExisting, { project_id: PROJECT })));
  // Open and closed sessions, one with a running step, one with a signal that has a reason, one in several executions.
  await Promise.all(sessions.slice(0, 30).map((session) => eventually(() => session.command(updates.close))));
  const [hanging, signalled, many] = sessions.slice(40) as [TestSession, TestSession, TestSession];
  await hanging.send('hang');
  await signalled.handle.signal(signals.cancel, { reason: REASON });
  for (let n = 0; n < 4; n += 1) await many.ended(await many.send('a tool'));
  chained = many;
  await quiet(chained);
  const { runId: newest } = await chained.handle.describe();
  // A workflow of another type, which the commands ignore.
  await runtime.temporal.workflow.start('another', { workflowId: 'not-a-session', taskQueue: 'nobody' });
  total = await eventually(async () => {
    const listed = await listExecutions(runtime.temporal, { limit: 1_000 });
    expect(listed.filter(({ workflowId }) => workflowId === chained.id).length).toBeGreaterThan(1);
    expect(listed.map(({ runId }) => runId)).toContain(newest);
    expect(new Set(listed.map(({ workflowId }) => workflowId)).size).toBe(SESSIONS);
    return listed.length;
  });
});

/** Runs a script as `npm run` does. */
function run(script: 'replay' | 'record', args: string[], env: Record<string, string> = {}) {
  const { promise, resolve } = Promise.withResolvers<{ code: unknown; out: string; err: string }>();
  execFile(
    process.execPath,
    [path.join('tools', 'scripts', `${script}.ts`), ...args],
    {
      cwd: root,
      env: {
        PATH: process.env['PATH'],
        NODE_COMPILE_CACHE: COMPILE_CACHE,
        TEMPORAL_ADDRESS: runtime.address,
        TEMPORAL_NAMESPACE: runtime.namespace,
        ...env,
      },
    },
    (error, out, err) => resolve({ code: error?.code ?? 0, out, err: err.trim() }),
  );
  return promise;
}

describe('replay and record with a running server', () => {
  it('W5 replays the newest of over a hundred histories, and prints how many', async () => {
    const recorded = (await readdir(path.join(root, 'test/histories'))).filter((file) =>
      file.endsWith('.inputs.json'),
    ).length;
    const { code, out } = await run('replay', ['--last', '1000']);
    expect([code, out]).toEqual([
      0,
      `${recorded} recorded histories\n${total} histories of the server\nall of them replay\n`,
    ]);
    expect((await run('replay', ['--last', '50'])).out).toContain('50 histories of the server\n');
    const guide = await readFile(path.join(root, 'docs/deploys.md'), 'utf8');
    for (const words of ['recorded histories', 'histories of the server', 'all of them replay'])
      expect(guide).toContain(words);
  });

  it('W5 W4 a session is recorded in all its executions, under a pseudonym, and what was recorded replays', async () => {
    const dir = scratchDir();
    const { code, out } = await run('record', ['--session', chained.id, '--out', dir]);
    const histories = await readHistories(dir);
    expect(code).toBe(0);
    expect(out).toMatch(/^\d+ histories in /);
    expect(histories.length).toBeGreaterThan(1);
    const results = await replay(await workflowBundle(path.join(root, 'node_modules/.cache/perdure')), histories);
    expect(results.filter(({ broke }) => broke)).toEqual([]);
    expectNoNames(readable(histories));
  });

  it('W5 the newest ones are recorded, open and closed, without names of users, projects, workers, sessions or reasons', async () => {
    const dir = scratchDir();
    expect((await run('record', ['--last', '1000', '--out', dir])).code).toBe(0);
    const histories = await readHistories(dir);
    expect(histories).toHaveLength(total);
    const text = readable(histories);
    expectNoNames(text);
    expect(text).toContain('"PerdureUser":"user-1"');
    const results = await replay(await workflowBundle(path.join(root, 'node_modules/.cache/perdure')), histories);
    expect(results.filter(({ broke }) => broke)).toEqual([]);
  });

  it('W5 wrong arguments, an unknown session and an unreachable server are each reported in one line', async () => {
    const away = `127.0.0.1:${await freePort()}`;
    const answers = await Promise.all([
      run('replay', ['--last', 'many']),
      run('replay', ['--last', '0']),
      run('replay', ['--newest', '3']),
      run('replay', ['--last', '3'], { TEMPORAL_ADDRESS: away }),
      run('replay', ['--last', '3'], { TEMPORAL_NAMESPACE: 'nowhere' }),
      run('record', ['--session', 'ses_unknown']),
      run('record', ['no-such-scenario']),
      run('record', ['--last', '3', '--session', 'ses_unknown']),
    ]);
    expect(answers.map(({ code }) => code)).toEqual([2, 2, 2, 1, 1, 1, 2, 2]);
    const said = answers.map(({ err }) => err);
    expect(said).toMatchObject([
      '--last: expected how many histories, such as 100',
      '--last: expected how many histories, such as 100',
      expect.stringContaining("Unknown option '--newest'"),
      `Temporal cannot be reached at ${away} (TEMPORAL_ADDRESS)`,
      expect.stringContaining('namespace "nowhere"'),
      `namespace "${runtime.namespace}" at ${runtime.address} has no session ses_unknown`,
      expect.stringContaining('no scenario no-such-scenario; there are plain-turn,'),
      '--session: expected without --last',
    ]);
    expect(said.filter((text) => text.includes('\n    at '))).toEqual([]);
  });
});

function expectNoNames(text: string): void {
  const names = [USER, 'grace', PROJECT, chained.id, '"identity"', 'stackTrace', '"memo"'];
  expect(names.filter((name) => text.includes(name))).toEqual([]);
}
