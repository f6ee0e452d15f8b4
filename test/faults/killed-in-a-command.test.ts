// A worker crashes between the commit of a command and its response; another one takes over.
import { describe, expect, it } from 'vitest';
import type { PhaseEvent } from '../../domain/phases.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import * as names from '../../workflows/definitions.ts';
import { type CrashCase, CrashGroup, sendUntilAsked } from './crash-cases.ts';
import { commandRows, raise } from './rows.ts';
import type { CrashPoint } from './worker-process.ts';

const ID = 'cmd_once';

/** A test of a command to a session without a run: sent once, and again when the worker has been replaced. */
function command(
  group: CrashGroup,
  options: {
    crashesAt: CrashPoint;
    path?: readonly PhaseEvent[];
    send(the: CrashCase): Promise<object>;
    outcome: object;
    row: object;
  },
): () => Promise<void> {
  return group.case({
    crashesAt: options.crashesAt,
    play: async (the) => {
      await raise(the.runtime.db, the.session.id, options.path ?? []);
      return { sending: options.send(the) };
    },
    afterwards: async (the, { sending }) => {
      const outcome = await sending;
      expect(outcome).toMatchObject(options.outcome);
      expect(await options.send(the), 'a repeat gets the same response').toEqual(outcome);
      expect(await the.session.row()).toMatchObject(options.row);
      expect(await commandRows(the.runtime.db, the.session.id)).toHaveLength(1);
    },
  });
}

const VERIFYING = ['start_build', 'todo_done_build'] as const;

// A worker has three slots for workflows that are not in its cache, and each first command that waits keeps one: hence groups
// of three.
describe.concurrent('a worker killed in the first command of a session (1 of 2)', () => {
  const group = new CrashGroup();

  it(
    'W2 publish',
    command(group, {
      crashesAt: { after: 'apply_command', holding: '"publish"' },
      path: VERIFYING,
      send: ({ session }) => session.command(names.updates.publish, { command_id: ID }),
      outcome: { phase: 'done' },
      row: { phase: 'done' },
    }),
  );

  it(
    'W2 revert',
    command(group, {
      crashesAt: { after: 'apply_command', holding: '"revert"' },
      path: VERIFYING,
      send: ({ session }) => session.command(names.updates.revert, { command_id: ID }),
      outcome: { phase: 'building' },
      row: { phase: 'building' },
    }),
  );

  it(
    'W2 openExisting',
    command(group, {
      crashesAt: { after: 'apply_command', holding: '"open_existing"' },
      send: ({ session }) =>
        session.command(names.updates.openExisting, { command_id: ID, project_id: `p_${session.id}` }),
      outcome: { phase: 'chatting', project_id: expect.stringMatching(/^p_/) as string },
      row: { project_id: expect.stringMatching(/^p_/) as string },
    }),
  );
});

describe.concurrent('a worker killed in the first command of a session (2 of 2)', () => {
  const group = new CrashGroup();

  it(
    'W2 cancel',
    command(group, {
      crashesAt: { after: 'apply_command', holding: '"cancel"' },
      path: ['start_build'],
      send: ({ session }) => session.command(names.updates.cancel, { command_id: ID }),
      outcome: { phase: 'chatting', cancelled: true, aborted: false },
      row: { phase: 'chatting', cancel_token: ID },
    }),
  );

  it(
    'W2 close',
    command(group, {
      crashesAt: { after: 'apply_command', holding: '"close"' },
      send: ({ session }) => session.command(names.updates.close, { command_id: ID }),
      outcome: { aborted: false, dropped: [] },
      row: { phase: 'chatting' },
    }),
  );

  it(
    'W2 a raw signal that is refused, logged once',
    group.case({
      crashesAt: { after: 'apply_command', holding: '"rewind"' },
      play: async (the) => {
        await the.session.signalWithStart(names.signals.rewind, { message_id: 'msg_1' });
      },
      afterwards: async (the) => {
        const { state } = await the.session.ended(await the.session.send(`hello, ${the.session.id}`));
        expect(state).toBe('finished');
        expect(await commandRows(the.runtime.db, the.session.id)).toMatchObject([
          { kind: 'refused', actor: 'operator', data: { command: 'rewind', outcome: { code: 'MessageNotFound' } } },
        ]);
      },
    }),
  );
});

describe.concurrent('a worker killed in a command to a session with a run', () => {
  const group = new CrashGroup();

  it(
    'W2 abort, of the run in flight',
    group.case({
      crashesAt: { after: 'apply_command', holding: '"abort"' },
      model: () => [say('Once upon'), hang()],
      play: async (the) => ({
        run: await sendUntilAsked(the),
        sending: the.session.command(names.updates.abort, { command_id: ID }),
      }),
      afterwards: async (the, { run, sending }) => {
        expect(await sending).toMatchObject({ aborted: true, run_seq: run });
        expect((await the.session.ended(run)).state).toBe('aborted');
        expect(await commandRows(the.runtime.db, the.session.id)).toHaveLength(1);
        expect(the.requests(), 'the lost step was not retried').toHaveLength(1);
      },
    }),
  );

  it(
    'W2 cancelQueued, and the run before it continues',
    group.case({
      crashesAt: { after: 'apply_command', holding: '"cancel_queued"' },
      model: (nth) => (nth === 0 ? [say('lost'), hang()] : [say('found')]),
      play: async (the) => {
        const run = await sendUntilAsked(the);
        await the.session.send(`never mind, ${the.session.id}`, 'queued');
        const args = { command_id: ID, message_id: 'queued' };
        return { run, sending: the.session.command(names.updates.cancelQueued, args) };
      },
      afterwards: async (the, { run, sending }) => {
        await sending;
        expect((await the.session.ended(run)).state).toBe('finished');
        expect((await the.session.run(run + 1)).state).toBe('cancelled');
        expect(await commandRows(the.runtime.db, the.session.id)).toHaveLength(1);
        expect(JSON.stringify(the.requests().at(-1)!.body)).not.toContain('never mind');
      },
    }),
  );

  it(
    'W2 a raw signal with a reason, recorded once',
    group.case({
      crashesAt: { after: 'apply_command', holding: '"cancel"' },
      model: () => [say('Once upon'), hang()],
      play: async (the) => {
        const run = await sendUntilAsked(the);
        await the.session.handle.signal(names.signals.cancel, { reason: 'enough' });
        return { run };
      },
      afterwards: async (the, { run }) => {
        expect((await the.session.ended(run)).state).toBe('aborted');
        const kinds = await commandRows(the.runtime.db, the.session.id);
        expect(kinds.map((row) => row.kind).toSorted()).toEqual(['abort', 'reason']);
      },
    }),
  );
});
