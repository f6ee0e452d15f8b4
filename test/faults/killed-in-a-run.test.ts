// A worker crashes between the commit of an activity and its completion in Temporal; another one takes over.
import { describe, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { Contents } from '../../store/contents.ts';
import { attached } from '../../tools/test-kit/attached.ts';
import { callTool, fail, finish, hang, say } from '../../tools/test-kit/model-actions.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { updates } from '../../workflows/definitions.ts';
import { effects } from './agent.ts';
import { CrashGroup, type CrashCase, type Saying, sendUntilAsked } from './crash-cases.ts';
import { expectTalliedOnce, stateOf } from './tallied.ts';
import type { CrashPoint } from './worker-process.ts';

const group = new CrashGroup();

const hello: Saying = () => [say('Hello '), say('there')];
const lostThenFound: Saying = (nth) => (nth === 0 ? [say('lost words'), hang()] : [say('new words')]);
const tool =
  (name: string, input: object): Saying =>
  (nth) =>
    nth === 0 ? [callTool('call_1', name, input)] : [say('after the tool')];

const HELLO = [{ type: 'step-start' }, { type: 'text', text: 'Hello there', state: 'done' }];
const UNKNOWN = { state: 'output-error', errorText: expect.stringContaining('outcome is unknown') as string };

/** A test that sends one message, which the worker crashes on, and passes the stored parts to `then`. */
function turn(
  crashesAt: CrashPoint,
  model: Saying,
  then: (the: CrashCase, parts: unknown[]) => Promise<void> | void,
): () => Promise<void> {
  return group.case({
    crashesAt,
    model,
    play: async ({ session }) => {
      const { run, message } = await session.accept(`go, ${session.id}`);
      return { run, woken: session.wake(run, message) };
    },
    afterwards: async (the, { run, woken }) => {
      await woken;
      const ended = await the.session.ended(run);
      expect(ended.state).toBe('finished');
      await then(the, await the.session.parts(ended.answer_id));
    },
  });
}

describe.concurrent('a worker killed in a turn', () => {
  it(
    'W8 after the session was loaded',
    turn({ after: 'load_session' }, hello, (the, parts) => {
      expect(parts).toEqual(HELLO);
      expect(the.requests()).toHaveLength(1);
    }),
  );

  it(
    'T2 after the step was claimed',
    turn({ after: 'claim_step' }, hello, (the, parts) => {
      expect(parts).toEqual(HELLO);
      expect(the.requests()).toHaveLength(1);
    }),
  );

  it(
    'T5 while streaming: the lost text stays, and the new text follows `data-interrupted`',
    turn({ after: 'append_streams', holding: 'lost words' }, lostThenFound, (the, parts) => {
      expect(parts).toEqual([
        { type: 'step-start' },
        { type: 'text', text: 'lost words', state: 'done' },
        { type: 'data-interrupted', id: expect.stringMatching(/^prt_/) as string, data: {} },
        { type: 'step-start' },
        { type: 'text', text: 'new words', state: 'done' },
      ]);
      expect(the.requests()).toHaveLength(2);
    }),
  );

  it(
    'U2 after the step was settled: the model is not called again',
    turn({ after: 'settle_step' }, hello, (the, parts) => {
      expect(parts).toEqual(HELLO);
      expect(the.requests()).toHaveLength(1);
    }),
  );

  it(
    'R3 after a step with a tool call was settled: the model is not called again, the tool runs once',
    turn({ after: 'settle_step' }, tool('pay', { amount: 5 }), async (the, parts) => {
      expect(parts).toMatchObject([{}, { state: 'output-available', output: { paid: 5 } }, {}, {}]);
      expect(the.requests()).toHaveLength(2);
      expect(await effects(the.runtime.workspaces, the.session.id)).toHaveLength(1);
    }),
  );

  it(
    'R5 while a step waits for its retry',
    turn(
      { after: 'note_retry' },
      (nth) => (nth === 0 ? [fail(500)] : [say('at last')]),
      (_the, parts) => {
        expect(parts).toEqual([{ type: 'step-start' }, { type: 'text', text: 'at last', state: 'done' }]);
      },
    ),
  );
});

const PNG = Buffer.from(PIXEL, 'base64');

describe.concurrent('a worker killed in a turn with an attachment', () => {
  it(
    'T10 while streaming: the next worker sends the model the same bytes',
    group.case({
      crashesAt: { after: 'append_streams', holding: 'lost words' },
      model: lostThenFound,
      play: async ({ runtime: { db }, session }) => {
        const to = { db, contents: new Contents(db) };
        const file = await attached(to, session.id, { bytes: PNG, mediaType: 'image/png' });
        const { run, message } = await session.accept(`look, ${session.id}`, newId('msg'), null, [file]);
        return { run, woken: session.wake(run, message) };
      },
      afterwards: async ({ session, requests }, { run, woken }) => {
        await woken;
        expect((await session.ended(run)).state).toBe('finished');
        const asked = requests().map(({ body }) => body.messages.findLast(({ role }) => role === 'user')?.content);
        expect(asked).toHaveLength(2);
        expect(asked[1]).toEqual(asked[0]);
        expect(JSON.stringify(asked[0])).toContain(`data:image/png;base64,${PIXEL}`);
      },
    }),
  );
});

const tallyThenRecall: Saying = (nth) =>
  [[callTool('call_1', 'tally', {})], [callTool('call_2', 'recall', {})]][nth] ?? [say('after the tools')];
const TALLIED = [
  ...[{}, { type: 'tool-tally', output: 'counted' }, {}],
  ...[{ type: 'tool-recall', output: 'there' }, {}, { text: 'after the tools' }],
];

describe.concurrent('a worker killed in a tool', () => {
  it(
    'R3 that had started and is not repeatable: its outcome is unknown',
    turn({ after: 'begin_tool' }, tool('pay', { amount: 5 }), async (the, parts) => {
      expect(parts).toMatchObject([{}, { type: 'tool-pay', ...UNKNOWN }, {}, { text: 'after the tool' }]);
      expect(await effects(the.runtime.workspaces, the.session.id)).toEqual([]);
      expect(the.requests()).toHaveLength(2);
    }),
  );

  it(
    'R3 that had run and is not repeatable: its outcome is unknown',
    turn({ before: 'finish_tool' }, tool('pay', { amount: 5 }), async (the, parts) => {
      expect(parts).toMatchObject([{}, { type: 'tool-pay', ...UNKNOWN }, {}, { text: 'after the tool' }]);
      expect(await effects(the.runtime.workspaces, the.session.id)).toHaveLength(1);
      const told = JSON.stringify(the.requests().at(-1)!.body.messages);
      expect(told).toContain('outcome is unknown');
      // Its changes of state are committed with its result or not at all.
      expect(await stateOf(the)).toEqual({ state: [], events: [] });
    }),
  );

  it(
    'R3 whose outcome is stored: it is kept',
    turn({ after: 'finish_tool' }, tool('pay', { amount: 5 }), async (the, parts) => {
      expect(parts).toMatchObject([{}, { state: 'output-available', output: { paid: 5 } }, {}, {}]);
      expect(await effects(the.runtime.workspaces, the.session.id)).toHaveLength(1);
      expect(the.requests()).toHaveLength(2);
    }),
  );

  it(
    'R3 that had run and is repeatable: it runs again under the same id',
    turn({ before: 'finish_tool' }, tool('look', { at: 'it' }), async (the, parts) => {
      expect(parts).toMatchObject([{}, { state: 'output-available', output: { seen: 'it' } }, {}, {}]);
      const done = await effects(the.runtime.workspaces, the.session.id);
      expect(done).toHaveLength(2);
      expect(done[1]).toBe(done[0]);
    }),
  );

  it(
    'K4 K6 that had changed state: the changes of the second run are applied once, and its turn can read `temp:`',
    turn({ before: 'finish_tool' }, tallyThenRecall, async (the, parts) => {
      expect(parts).toMatchObject(TALLIED);
      expect(await effects(the.runtime.workspaces, the.session.id)).toHaveLength(2);
      await expectTalliedOnce(the, parts);
    }),
  );

  it(
    'K6 whose changes of state are stored: they are applied once, and `temp:` is there on the next worker',
    turn({ after: 'finish_tool' }, tallyThenRecall, async (the, parts) => {
      expect(parts).toMatchObject(TALLIED);
      expect(await effects(the.runtime.workspaces, the.session.id)).toHaveLength(1);
      await expectTalliedOnce(the, parts);
    }),
  );

  it(
    'S5 that creates a project: one project, one transition, and the build can be completed',
    turn(
      { after: 'begin_tool' },
      (nth) =>
        [
          [callTool('call_1', 'build_and_deploy', { confirm_new_project: true })],
          [callTool('call_1', 'todo_complete', { name: 'build' })],
        ][nth] ?? [say('built')],
      async (the, parts) => {
        expect(parts).toMatchObject([{}, { state: 'output-available' }, {}, { state: 'output-available' }, {}, {}]);
        expect(await the.session.row()).toMatchObject({
          phase: 'verifying',
          project_id: expect.stringMatching(/^prj_/) as string,
        });
        const { rows } = await the.runtime.db.query(
          `SELECT data ->> 'event' AS event FROM session_events WHERE session_id = $1 AND kind = 'transition' ORDER BY seq`,
          [the.session.id],
        );
        expect(rows).toEqual([{ event: 'start_build' }, { event: 'todo_done_build' }]);
      },
    ),
  );
});

describe.concurrent('a worker killed as a run ends', () => {
  it(
    'R6 after a final failure was written: the model is not called again',
    group.case({
      crashesAt: { after: 'settle_run' },
      model: (nth) => (nth === 0 ? [fail(401)] : [say('fine')]),
      play: async ({ session }) => {
        const { run, message } = await session.accept(`go, ${session.id}`);
        return { run, woken: session.wake(run, message) };
      },
      afterwards: async (the, { run, woken }) => {
        await woken;
        expect(await the.session.ended(run)).toMatchObject({ state: 'error', error_code: 'ProviderUnauthorized' });
        expect(the.requests()).toHaveLength(1);
        const next = await the.session.accept(`again, ${the.session.id}`);
        await the.session.wake(next.run, next.message);
        expect((await the.session.ended(next.run)).state).toBe('finished');
      },
    }),
  );

  it(
    'R6 after a filtered step was settled: the model is not called again',
    group.case({
      crashesAt: { after: 'settle_step' },
      model: () => [say('I must not'), finish('content_filter')],
      play: async ({ session }) => {
        const { run, message } = await session.accept(`go, ${session.id}`);
        return { run, woken: session.wake(run, message) };
      },
      afterwards: async (the, { run, woken }) => {
        await woken;
        expect(await the.session.ended(run)).toMatchObject({ state: 'error', error_code: 'ContentFilter' });
        expect(the.requests()).toHaveLength(1);
      },
    }),
  );

  it(
    'R4 after an abort was written',
    group.case({
      crashesAt: { after: 'settle_run' },
      model: (nth) => (nth === 0 ? [say('Once upon'), hang()] : [say('next')]),
      play: async (the) => {
        const run = await sendUntilAsked(the);
        return { run, aborting: the.session.command(updates.abort) };
      },
      afterwards: async (the, { run, aborting }) => {
        expect(await aborting).toMatchObject({ aborted: true, run_seq: run });
        expect((await the.session.ended(run)).state).toBe('aborted');
        const next = await the.session.send(`and then, ${the.session.id}?`);
        expect((await the.session.ended(next)).state).toBe('finished');
        expect(the.requests()).toHaveLength(2);
      },
    }),
  );
});
