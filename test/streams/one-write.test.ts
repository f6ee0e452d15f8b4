// The streams of a worker share their writes.
import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { aroundCalls, sessionsOf } from '../faults/sql-calls.ts';

const STREAMS = 8;
const MB = 1024 * 1024;

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({
    script: (request) => talks.get(lastUserText(request))!.script(),
    settings: { sweepIntervalMs: 3_600_000 },
  });
});

const talks = new Map<string, Talk>();

/** A session whose model says what the test lets it say. */
class Talk {
  readonly session: TestSession;
  readonly run: number;
  private readonly actions: ModelAction[] = [];
  private more = Promise.withResolvers<void>();
  private over = false;

  private constructor(session: TestSession, run: number) {
    this.session = session;
    this.run = run;
  }

  /** An answer whose first word is on its way. */
  static async start(): Promise<Talk> {
    const session = await TestSession.open(runtime);
    const { run, message } = await session.accept(session.id);
    const talk = new Talk(session, run);
    talks.set(session.id, talk);
    talk.say('Once');
    await session.wake(run, message);
    return talk;
  }

  /** An answer whose first word is stored. */
  static async begin(): Promise<Talk> {
    const talk = await Talk.start();
    await talk.stored('Once');
    return talk;
  }

  async *script(): AsyncIterable<ModelAction> {
    while (!this.over || this.actions.length > 0) {
      yield* this.actions.splice(0);
      if (!this.over) await this.more.promise;
      this.more = Promise.withResolvers();
    }
  }

  say(...texts: string[]): void {
    this.actions.push(...texts.map(say));
    this.more.resolve();
  }

  end(): void {
    this.over = true;
    this.more.resolve();
  }

  async text(): Promise<string> {
    const { answer_id: answer } = await this.session.run(this.run);
    const parts = await this.session.parts(answer);
    return parts.map(({ text }) => (typeof text === 'string' ? text : '')).join('');
  }

  stored(text: string): Promise<void> {
    return eventually(async () => expect(await this.text()).toBe(text));
  }

  /** Ends the answer. It had one model call. */
  async ended(text: string): Promise<void> {
    this.end();
    const run = await this.session.ended(this.run);
    expect(run).toMatchObject({ state: 'finished', fence: [1, expect.any(Number), 1] });
    expect(await this.text()).toBe(text);
  }
}

/** The sessions of each statement that stores streamed text. */
function watched() {
  const shared: string[][] = [];
  const alone: string[] = [];
  const hook = aroundCalls(runtime.db, {
    before: (call) => {
      if (call.name === 'append_streams') shared.push(sessionsOf(call));
      if (call.name === 'append_stream') alone.push(...sessionsOf(call));
    },
  });
  return { shared, alone, [Symbol.dispose]: () => hook[Symbol.dispose]() };
}

it('T4 what the streams of a worker have to say is written together', async () => {
  const all = await Promise.all(Array.from({ length: STREAMS }, () => Talk.begin()));
  using statements = watched();
  let text = 'Once';
  await eventually(async () => {
    for (const talk of all) talk.say(' more');
    text += ' more';
    await Promise.all(all.map((talk) => talk.stored(text)));
    expect(statements.shared.map((sessions) => sessions.length)).toContain(STREAMS);
  });
  expect(statements.alone).toEqual([]);
  await Promise.all(all.map((talk) => talk.ended(text)));
});

/** How many answers' models have said their first word. */
async function begun(): Promise<number> {
  const text = await runtime.registry.getSingleMetricAsString('perdure_model_first_chunk_seconds');
  return Number(/_count\S* (\d+)/.exec(text)?.[1] ?? 0);
}

it('T2 T5 the first words of an answer that is aborted while other statements are stuck are stored with its row', async () => {
  const all = await Promise.all([Talk.begin(), Talk.begin(), Talk.begin(), Talk.begin()]);
  const gate = new Gate();
  const stuck = new Set<string>();
  using _hook = aroundCalls(runtime.db, {
    before: (call) => {
      if (call.name !== 'append_streams') return undefined;
      for (const session of sessionsOf(call)) stuck.add(session);
      return gate.pass();
    },
  });
  // As many statements as there may be at the same time.
  for (const talk of all) {
    talk.say(' more');
    await eventually(() => expect(stuck).toContain(talk.session.id));
  }
  const late = await eventually(async () => {
    const before = await begun();
    const talk = await Talk.start();
    await eventually(async () => expect(await begun()).toBe(before + 1));
    expect(await talk.session.command(updates.abort)).toMatchObject({ aborted: true });
    expect(await talk.session.ended(talk.run)).toMatchObject({ state: 'aborted' });
    expect(stuck).not.toContain(talk.session.id);
    // The first word may come after the abort, which is no case of this test.
    expect(await talk.text()).toBe('Once');
    return talk;
  });
  const answer = `SELECT metadata FROM chat_messages WHERE session_id = $1 AND role = 'assistant'`;
  const { rows } = await runtime.db.query(answer, [late.session.id]);
  expect(rows).toMatchObject([{ metadata: { model: 'openai/test' } }]);
  gate.open();
  await Promise.all(all.map((talk) => talk.ended('Once more')));
});

it('T4 a chunk of 10 MB and thousands of chunks at once leave another stream its ticks', async () => {
  const [long, many, short] = await Promise.all([Talk.begin(), Talk.begin(), Talk.begin()]);
  using statements = watched();
  const chunks = Array.from({ length: 10_000 }, (_, index) => ` ${index}`);
  const whole = 'x'.repeat(10 * MB);
  long.say(whole);
  many.say(...chunks);
  let text = 'Once';
  for (const word of [' upon', ' a', ' time']) {
    short.say(word);
    text += word;
    await short.stored(text);
  }
  await Promise.all([long.stored(`Once${whole}`), many.stored(`Once${chunks.join('')}`)]);
  expect(statements.alone, 'only the long chunk').toEqual([long.session.id]);
  const writesOfMany = statements.shared.filter((sessions) => sessions.includes(many.session.id));
  expect(writesOfMany.length, 'chunks are merged').toBeLessThan(chunks.length / 20);
  await Promise.all([long.ended(`Once${whole}`), many.ended(`Once${chunks.join('')}`), short.ended(text)]);
});
