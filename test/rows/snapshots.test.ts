// Requests to restore files, as SQL functions.
import { expect, it } from 'vitest';
import {
  beginRestore,
  endRestore,
  giveUpRestore,
  isStillAsked,
  noteRewound,
  type RestoreRequest,
} from '../../store/snapshots.ts';
import { call, freshRows, Session } from './session.ts';

const db = await freshRows();

/** A session with messages m1, m2, …, whose files have the snapshots s1, s2, …. */
async function answered(count: number): Promise<Session> {
  const session = await Session.at('chatting', db);
  for (let n = 1; n <= count; n += 1) {
    const { message_id, run_seq } = (await session.say(`m${n}`, { id: `m${n}` })) as {
      message_id: string;
      run_seq: number;
    };
    await call(db, 'note_snapshot', [session.id, message_id, `s${n}`]);
    await session.settleRun(run_seq, 'aborted');
  }
  return session;
}

const begin = (session: Session, root = `home/${session.id}`) => beginRestore(db, session.id, root);
const claimed = async (session: Session) => (await begin(session)) as RestoreRequest;

it('X2 what replaces a claimed request waits for it, and is not ended by it', async () => {
  const session = await answered(3);
  await session.rewind('m3');
  const first = await claimed(session);
  expect(first).toMatchObject({ to: 's3', take: true });
  await noteRewound(db, session.id, first.rewind!, 'newest');
  await session.rewind('m1');
  expect(await begin(session)).toEqual({ busy: true });
  expect(await isStillAsked(db, session.id, first.n)).toBe(false);
  expect(await endRestore(db, session.id, first.n, true)).toBe(false);
  const second = await claimed(session);
  expect(second).toMatchObject({ to: 's1', take: false });
  expect(await isStillAsked(db, session.id, second.n)).toBe(true);
  expect(await endRestore(db, session.id, second.n, true)).toBe(true);
  for (const to of ['s3', 'newest']) {
    await session.unrewind();
    const undone = await claimed(session);
    expect(undone).toMatchObject({ to, take: false });
    expect(await endRestore(db, session.id, undone.n, true)).toBe(true);
  }
  expect(await begin(session)).toBeUndefined();
});

it('X2 a snapshot that cannot be restored is not asked for again, unless another request has replaced it', async () => {
  const session = await answered(3);
  await session.regenerate('m2');
  const first = await claimed(session);
  const { run_seq } = (await session.regenerate('m1')) as { run_seq: number };
  expect(await giveUpRestore(db, session.id, first.n)).toBe(false);
  const second = await claimed(session);
  expect(second).toMatchObject({ to: 's1' });
  expect(await giveUpRestore(db, session.id, second.n)).toBe(true);
  await session.settleRun(run_seq, 'error');
  expect(await session.regenerate('m1')).toMatchObject({ accepted: true });
  expect(await begin(session)).toBeUndefined();
  const { rows } = await db.query(
    `SELECT id, metadata ->> 'snapshot_id' AS snapshot FROM chat_messages WHERE session_id = $1 AND role = 'user' ORDER BY id`,
    [session.id],
  );
  expect(rows).toMatchObject([
    { id: 'm1', snapshot: null },
    { id: 'm2', snapshot: 's2' },
    { id: 'm3', snapshot: 's3' },
  ]);
});

it.each([
  ['before', true],
  ['after', false],
])(
  'X2 X1 W7 the files from before a rewind come back if its next message, sent %s the restore began, is taken back',
  async (_when, isSaidFirst) => {
    const session = await answered(3);
    await session.rewind('m2');
    const say = () => session.say('m4', { id: 'm4' });
    if (isSaidFirst) await say();
    const request = await claimed(session);
    if (!isSaidFirst) await say();
    expect(request).toMatchObject({ to: 's2', take: true });
    await noteRewound(db, session.id, request.rewind!, 'newest');
    expect(await endRestore(db, session.id, request.n, true)).toBe(true);
    await session.cancelQueued('m4');
    expect(await session.unrewind()).toMatchObject({ ok: true, message_id: 'm2' });
    expect(await claimed(session)).toMatchObject({ to: 'newest', take: false });
  },
);

it('X2 a claimed step knows whether files are to be restored', async () => {
  const session = await answered(2);
  const { run_seq: third } = (await session.say('m3', { id: 'm3' })) as { run_seq: number };
  expect(await session.claim(third, [0, 3, 1])).toMatchObject({ kind: 'claimed', restoring: false });
  await session.settleRun(third, 'aborted');
  await session.rewind('m2');
  const { run_seq: fourth } = (await session.say('m4', { id: 'm4' })) as { run_seq: number };
  expect(await session.claim(fourth, [0, 4, 1])).toMatchObject({ kind: 'claimed', restoring: true });
  // Also to an attempt that comes while another one restores them.
  const { n } = await claimed(session);
  expect(await session.claim(fourth, [0, 4, 2])).toMatchObject({ kind: 'claimed', restoring: true });
  expect(await endRestore(db, session.id, n, true)).toBe(true);
  expect(await session.claim(fourth, [0, 4, 3])).toMatchObject({ kind: 'claimed', restoring: false });
});

it('X2 rewinds whose files have not been restored yet are undone one by one', async () => {
  const session = await answered(3);
  await session.rewind('m3');
  await session.rewind('m1');
  await session.unrewind();
  const request = await claimed(session);
  expect(request, 'the newest files are still those of the workspace').toMatchObject({ to: 's3', take: true });
  await session.unrewind();
  expect(await isStillAsked(db, session.id, request.n)).toBe(false);
  expect(await endRestore(db, session.id, request.n, true)).toBe(false);
  expect(await begin(session)).toBeUndefined();
});

/** Begins a tool of a session in a workspace. */
async function withTool(session: Session, root: string): Promise<void> {
  const run = await session.runWithCalls(['call_1']);
  const watch = { root, before: {} };
  expect(await session.beginTool(run, [0, 1, 2], 'call_1', { project: null, watch })).toMatchObject({ kind: 'begun' });
}

const endTool = (session: Session, root: string) =>
  call(db, 'note_written', [session.id, 'call_1', { root, before: {}, after: {}, over: true }]);

/** Rewinds a session while a tool runs. */
async function rewoundDuringTool(): Promise<Session> {
  const session = await answered(1);
  await withTool(session, 'a');
  await session.rewind('m1', { abort: true });
  return session;
}

it('X2 files are restored after the tool of the aborted run has ended', async () => {
  const session = await rewoundDuringTool();
  expect(await begin(session)).toEqual({ busy: true });
  await endTool(session, 'a');
  expect(await begin(session)).toMatchObject({ to: 's1' });
});

it('X2 files are restored ten seconds after the rewind if the worker of a tool was lost', async () => {
  const session = await rewoundDuringTool();
  expect(await begin(session)).toEqual({ busy: true });
  const later = `UPDATE chat_sessions SET restore = restore || jsonb_build_object('asked_at', now() - interval '11 s')
                  WHERE session_id = $1`;
  await db.query(later, [session.id]);
  expect(await begin(session)).toMatchObject({ to: 's1' });
});

it('X2 files are restored after the tools of other sessions in the same folder, above it and below it have ended', async () => {
  const roots = ['home/site', 'home', 'home/site/css'];
  const others = await Promise.all(
    [...roots, 'home/site2', 'home2'].map(async (root) => {
      const other = await Session.at('chatting', db);
      await withTool(other, root);
      return other;
    }),
  );
  const session = await answered(1);
  await session.rewind('m1');
  for (const [n, root] of roots.entries()) {
    expect(await begin(session, 'home/site'), root).toEqual({ busy: true });
    await endTool(others[n]!, root);
  }
  expect(await begin(session, 'home/site')).toMatchObject({ to: 's1' });
});

it('X2 a session that has made its project is told from one that has opened it', async () => {
  const made = await answered(1);
  const run = await made.runWithCalls(['call_1']);
  const raise = { event: 'start_build', at: 'start', project: 'new', new_project_id: `prj_${made.id}` };
  expect(await made.beginTool(run, [0, 1, 2], 'call_1', raise)).toMatchObject({ kind: 'begun' });
  await made.rewind('m1', { abort: true });
  expect(await claimed(made)).toMatchObject({ project_id: `prj_${made.id}`, made_project: true });
  const opened = await answered(1);
  await opened.openExisting(`prj_${made.id}`);
  await opened.rewind('m1');
  expect(await claimed(opened)).toMatchObject({ project_id: `prj_${made.id}`, made_project: false });
});
