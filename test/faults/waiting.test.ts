// Runs that wait for an answer, or for a page, lose the worker, host, workflow or build in which they wait.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { askingModel } from '../../tools/test-kit/asking-agent.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { type OurProcess, type Processes, processesOn } from '../../tools/test-kit/processes.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { statusQuery, updates } from '../../workflows/definitions.ts';
import { variant } from '../histories/variant.ts';
import { effects } from './agent.ts';
import { payingAgent, toolPart, untilWaiting, waiting, type Waiting } from './paying.ts';
import { allRows, events } from './rows.ts';
import { expectSound } from './sound.ts';
import { aroundCalls } from './sql-calls.ts';
import { type CrashPoint, startWorkerProcess, WHEN_LOST } from './worker-process.ts';

const agents = [payingAgent];
const PAID = { state: 'output-available', output: { paid: 5 }, approval: { approved: true } };
const PLACED = { state: 'output-available', output: { place: 'here' } };
const UNKNOWN = { state: 'output-error', errorText: expect.stringContaining('outcome is unknown') as string };
const denied = (reason?: string) => ({
  state: 'output-denied',
  approval: { approved: false, ...(reason !== undefined && { reason }) },
});

const answer = ({ session, call }: Pick<Waiting, 'session' | 'call'>, decision: 'once' | 'reject') =>
  session.command(updates.answer, { tool_call_id: call, decision });

const outputPath = ({ session, call }: Pick<Waiting, 'session' | 'call'>) =>
  `/api/sessions/${session.id}/tool-outputs/${call}`;

const startPayingHost = ({ databaseUrl, temporal, workspaces }: TestRuntime) =>
  startHost({ databaseUrl, temporal, workspaces, agents: [payingAgent.id] });

interface Loss {
  text: string;
  crashesAt: CrashPoint;
  /** What the user does before the worker is lost, or after it. */
  before?: keyof typeof DOINGS;
  after?: keyof typeof DOINGS;
  state?: 'aborted';
  call: object;
  /** How often it paid. */
  paid: number;
}

const DOINGS = {
  once: (_host: TestHost, waits: Waiting): Promise<unknown> => answer(waits, 'once'),
  reject: (_host: TestHost, waits: Waiting): Promise<unknown> => answer(waits, 'reject'),
  abort: (_host: TestHost, { session }: Waiting): Promise<unknown> => session.command(updates.abort),
  output: (host: TestHost, waits: Waiting): Promise<unknown> =>
    host.as('ada').post(outputPath(waits), { output: { place: 'here' } }),
};

/** The fence of the attempt after the answer: the step and the attempt that asked were before it. */
const ANSWERED = '[1,3,';

const LOSSES: Readonly<Record<string, Loss>> = {
  'as it asks': { text: 'pay 5', crashesAt: { after: 'begin_tool' }, after: 'once', call: PAID, paid: 1 },
  'as it asks, to be rejected': {
    text: 'pay 5',
    crashesAt: { after: 'begin_tool' },
    after: 'reject',
    call: denied(),
    paid: 0,
  },
  'before the answer is committed': {
    text: 'pay 5',
    before: 'once',
    crashesAt: { before: 'apply_command' },
    call: PAID,
    paid: 1,
  },
  'when the answer is committed': {
    text: 'pay 5',
    before: 'once',
    crashesAt: { after: 'apply_command' },
    call: PAID,
    paid: 1,
  },
  'when a rejection is committed': {
    text: 'pay 5',
    before: 'reject',
    crashesAt: { after: 'apply_command' },
    call: denied(),
    paid: 0,
  },
  'as the approved call begins': {
    text: 'pay 5',
    before: 'once',
    crashesAt: { after: 'begin_tool', holding: ANSWERED },
    call: UNKNOWN,
    paid: 0,
  },
  'when the approved call has run': {
    text: 'pay 5',
    before: 'once',
    crashesAt: { before: 'finish_tool' },
    call: UNKNOWN,
    paid: 1,
  },
  'when the approved call is settled': {
    text: 'pay 5',
    before: 'once',
    crashesAt: { after: 'finish_tool' },
    call: PAID,
    paid: 1,
  },
  'as an abort is settled': {
    text: 'pay 5',
    before: 'abort',
    crashesAt: { before: 'settle_run' },
    state: 'aborted',
    call: denied('aborted by the user'),
    paid: 0,
  },
  'as a call is denied': { text: 'pay 13', crashesAt: { after: 'begin_tool' }, call: denied(), paid: 0 },
  'as it begins to wait for a page': {
    text: 'locate',
    crashesAt: { after: 'begin_tool' },
    after: 'output',
    call: PLACED,
    paid: 0,
  },
  'when the page has given its output': {
    text: 'locate',
    before: 'output',
    crashesAt: { before: 'finish_tool' },
    call: PLACED,
    paid: 0,
  },
};

describe.each(['SIGKILL', 'SIGSTOP'] as const)('a worker gets %s', (signal) => {
  const begun = new Map<string, { session: TestSession; run: number; doing: Promise<unknown> }>();
  let runtime: TestRuntime;
  let host: TestHost;
  let lost: Awaited<ReturnType<typeof startWorkerProcess>>;
  beforeAll(async () => {
    runtime = await startRuntime({ agents, settings: WHEN_LOST, script: askingModel });
    await runtime.first.stop();
    host = await startPayingHost(runtime);
    const crashesAt: Record<string, CrashPoint> = {};
    for (const [name, loss] of Object.entries(LOSSES)) {
      const session = await TestSession.open(runtime, { agent: payingAgent.id });
      begun.set(name, { session, run: 1, doing: Promise.resolve() });
      crashesAt[session.id] = loss.crashesAt;
    }
    lost = await startWorkerProcess(runtime, { crashesAt, signal });
    afterFile(() => lost.stop());
    for (const [name, { text, before }] of Object.entries(LOSSES)) {
      const the = begun.get(name)!;
      const { run, message } = await the.session.accept(text);
      const doing = async () => {
        await the.session.wake(run, message);
        if (before === undefined) return;
        const call = await untilWaiting(the.session, run);
        // Answered before its workflow knows that it waits, the call would not be looked at a second time.
        const knows = async () =>
          expect(await the.session.handle.query(statusQuery)).toMatchObject({ state: 'waiting' });
        await eventually(knows);
        await DOINGS[before](host, { ...the, call });
      };
      the.doing = doing();
      the.doing.catch(() => {});
    }
    const log = path.join(runtime.workspaces, 'worker.log');
    const arrived = async () => (await readFile(log, 'utf8')).split('\n').filter((line) => line.includes('"arrived"'));
    const missing = async () => {
      const lines = await arrived();
      return [...begun].filter(([, { session }]) => !lines.some((line) => line.includes(session.id)));
    };
    await eventually(async () => expect((await missing()).map(([name]) => name)).toEqual([]), { timeout: 60_000 });
    await runtime.startWorker();
  });

  async function expectAsWanted(name: string): Promise<void> {
    const { state = 'finished', call, paid } = LOSSES[name]!;
    const { session, run } = begun.get(name)!;
    expect((await session.run(run)).state).toBe(state);
    expect(await toolPart(session, run)).toMatchObject(call);
    expect(await effects(runtime.workspaces, session.id)).toHaveLength(paid);
    await expectSound(runtime, session.id);
  }

  it.each(Object.keys(LOSSES))('P3 R3 %s: another goes on, and what was decided holds', async (name) => {
    const the = begun.get(name)!;
    const { after } = LOSSES[name]!;
    if (after !== undefined) {
      await DOINGS[after](host, { ...the, call: await untilWaiting(the.session, the.run) });
    }
    await the.doing;
    await the.session.ended(the.run, 40_000);
    await expectAsWanted(name);
  });

  it('P3 T5 and when it goes on, it changes nothing', async () => {
    const rows = () => Promise.all([...begun.values()].map(({ session }) => allRows(runtime.db, session.id)));
    const before = await rows();
    if (signal === 'SIGSTOP') process.kill(lost.pid, 'SIGCONT');
    await lost.stop();
    expect(await rows()).toEqual(before);
    for (const [name, { session }] of begun) {
      const paid = await effects(runtime.workspaces, session.id);
      // Frozen before its tool began, it may run the approved call now: once.
      const most = LOSSES[name]!.crashesAt.holding === ANSWERED ? 1 : LOSSES[name]!.paid;
      expect(paid.length, name).toBeLessThanOrEqual(most);
    }
  });
});

describe('a host is killed', () => {
  let runtime: TestRuntime;
  let processes: Processes;
  beforeAll(async () => {
    runtime = await startRuntime({ agents, settings: WHEN_LOST, script: askingModel });
    processes = await processesOn(runtime, runtime.model.url);
  });

  it.each(['before', 'after'] as const)(
    'H13 %s the answer that it posts is committed: the repeat gets one outcome, and the call runs once',
    async (when) => {
      const waits = await waiting(runtime, 'pay 5');
      const { session, run, call } = waits;
      const gate = new Gate();
      using _ = aroundCalls(runtime.db, {
        [when]: ({ name, args }: { name: string; args: readonly unknown[] }) =>
          name === 'apply_command' && args[0] === session.id ? gate.pass() : undefined,
      });
      const key = newId('cmd');
      const post = (host: Awaited<ReturnType<Processes['host']>>, decision: string, given = key) =>
        host
          .as('ada')
          .post(`/api/sessions/${session.id}/answer`, { tool_call_id: call, decision }, { 'idempotency-key': given });
      const first = await processes.host();
      const broken = post(first, 'once').catch((error: unknown) => error);
      await gate.reached;
      await killed(first);
      expect(await broken).toBeInstanceOf(Error);
      const next = await processes.host();
      gate.open();
      const repeated = await post(next, 'once');
      expect(repeated).toMatchObject({ status: 200, body: { tool_call_id: call, decision: 'once', run_seq: run } });
      expect((await post(next, 'once')).body).toEqual(repeated.body);
      expect(await post(next, 'reject', newId('cmd'))).toMatchObject({
        ...{ status: 409, body: { code: 'NotWaiting', detail: expect.stringContaining('"once"') as string } },
      });
      expect((await session.ended(run)).state).toBe('finished');
      expect(await toolPart(session, run)).toMatchObject(PAID);
      expect(await effects(runtime.workspaces, session.id)).toHaveLength(1);
      const answers = (await events(runtime.db, session.id)).filter(({ kind }) => kind === 'approval');
      expect(answers).toHaveLength(1);
      await next.stop();
    },
  );

  it('P5 when a page’s output is committed and nobody was told: the run goes on, and the repeat gets the same outcome', async () => {
    const waits = await waiting(runtime, 'locate');
    const { session, run } = waits;
    const pool = patientPool(runtime.databaseUrl);
    afterFile(() => pool.end());
    const committed = new Gate();
    const { temporal, databaseUrl } = runtime;
    const dying = await startHost({
      ...{ databaseUrl, temporal, agents: [payingAgent.id] },
      clientOptions: { database: pool, directDatabaseUrl: databaseUrl },
    });
    aroundCalls(pool, { after: ({ name }) => (name === 'give_output' ? committed.pass() : undefined) });
    const give = (host: TestHost) => host.as('ada').post(outputPath(waits), { output: { place: 'here', odd: 1 } });
    const broken = give(dying).catch((error: unknown) => error);
    await committed.reached;
    dying.goAway();
    expect(await broken).toBeInstanceOf(Error);
    expect((await session.ended(run)).state).toBe('finished');
    const other = await startPayingHost(runtime);
    expect(await give(other)).toMatchObject({ status: 200, body: { run_seq: run } });
    expect(await toolPart(session, run)).toMatchObject(PLACED);
    committed.open();
    await expectSound(runtime, session.id);
  });
});

async function killed({ kill, exited }: OurProcess): Promise<void> {
  kill('SIGKILL');
  await exited;
}

describe('what a run waits in', () => {
  let runtime: TestRuntime;
  let host: TestHost;
  beforeAll(async () => {
    runtime = await startRuntime({
      agents,
      script: askingModel,
      settings: { continueAsNewEvents: 60, idleCloseMs: 400 },
    });
    host = await startPayingHost(runtime);
  });

  /** Sends answers to nothing until the workflow has continued as new. */
  async function continued({ session }: Waiting): Promise<void> {
    const { runId } = await session.handle.describe();
    await eventually(async () => {
      await answer({ session, call: newId('call') }, 'once').catch(() => {});
      expect((await session.handle.describe()).runId).not.toBe(runId);
    });
  }

  it('W8 is not idle: its workflow stays, while others close', async () => {
    const waits = await waiting(runtime, 'pay 5');
    for (let others = 0; others < 2; others += 1) {
      const idle = await TestSession.open(runtime, { agent: payingAgent.id });
      await idle.ended(await idle.send('look'));
      await idle.handle.result();
    }
    expect((await waits.session.handle.describe()).status.name).toBe('RUNNING');
    expect(await waits.session.handle.query(statusQuery)).toMatchObject({ state: 'waiting' });
    await answer(waits, 'once');
    expect((await waits.session.ended(waits.run)).state).toBe('finished');
    expect(await effects(runtime.workspaces, waits.session.id)).toHaveLength(1);
    // Then it is idle, too.
    await waits.session.handle.result();
  });

  it('W4 continues as new, and takes the page’s output then', async () => {
    const waits = await waiting(runtime, 'locate');
    await continued(waits);
    expect((await waits.session.run(waits.run)).state).toBe('waiting');
    expect((await host.as('ada').post(outputPath(waits), { output: { place: 'here' } })).status).toBe(200);
    expect((await waits.session.ended(waits.run)).state).toBe('finished');
    expect(await toolPart(waits.session, waits.run)).toMatchObject(PLACED);
    await expectSound(runtime, waits.session.id);
  });

  it('W4 continues as new, and the page’s time goes on', async () => {
    const waits = await waiting(runtime, 'locate');
    await runtime.db.query(
      `UPDATE chat_runs SET waiting = waiting || jsonb_build_object('until', clock_timestamp())
        WHERE session_id = $1`,
      [waits.session.id],
    );
    await continued(waits);
    expect((await waits.session.ended(waits.run)).state).toBe('finished');
    expect(await toolPart(waits.session, waits.run)).toMatchObject({
      state: 'output-error',
      errorText: 'The page of the user did not carry out this call in time.',
    });
    expect((await host.as('ada').post(outputPath(waits), { output: { place: 'here' } })).status).toBe(409);
  });

  it('W5 is replaced by another build, which goes on with the answer and the output', async () => {
    const asked = await waiting(runtime, 'pay 5');
    const rejected = await waiting(runtime, 'pay 6');
    const page = await waiting(runtime, 'locate');
    const workflowBundle = await variant('workflows/turn.ts', [
      'session.wait(run, false);',
      `session.wait(run, false); if (patched('a-pause-after-a-wait')) await sleep(1);`,
    ]);
    await runtime.first.stop();
    await runtime.startWorker({ workflowBundle });
    await answer(asked, 'once');
    await answer(rejected, 'reject');
    expect((await host.as('ada').post(outputPath(page), { output: { place: 'here' } })).status).toBe(200);
    for (const { session, run } of [asked, rejected, page]) {
      expect((await session.ended(run)).state).toBe('finished');
      await expectSound(runtime, session.id);
    }
    expect(await toolPart(asked.session, asked.run)).toMatchObject(PAID);
    expect(await toolPart(rejected.session, rejected.run)).toMatchObject(denied());
    expect(await toolPart(page.session, page.run)).toMatchObject(PLACED);
    expect(await effects(runtime.workspaces, asked.session.id)).toHaveLength(1);
    expect(await effects(runtime.workspaces, rejected.session.id)).toEqual([]);
  });
});
