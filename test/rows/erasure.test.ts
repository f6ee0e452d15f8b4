// Erasure and retention in the database: what is deleted, what stays, and that nothing is written afterwards.
import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { Event, PostgresSessionService } from '../../client/state/index.ts';
import { newId } from '../../domain/ids.ts';
import type { Json } from '../../domain/text.ts';
import { attach } from '../../store/attachments.ts';
import { type CachePlace, readCached, writeCached } from '../../store/cached-results.ts';
import { Contents } from '../../store/contents.ts';
import { claimErasures, eraseSession, eraseUserRest, finishErasures, someSessionsOf } from '../../store/erasure.ts';
import { noteWritten } from '../../store/instructions.ts';
import { keepPrompt, readPrompt } from '../../store/prompts.ts';
import { sweepOutputs, sweepRefusals } from '../../store/retention.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { wholeContent } from '../../tools/test-kit/attached.ts';
import { away, startStore } from '../../tools/test-kit/bucket.ts';
import { tablesWith } from '../../tools/test-kit/canary.ts';
import { freshRows, refusal, rows, Session, textPart, untilBlocked } from './session.ts';

const db = await freshRows();

const placeOf = ({ id, user }: Session, scope: CachePlace['scope'] = 'session', tool = 'look_up'): CachePlace => ({
  ...{ scope, sessionId: id, userId: user, tool },
});
const HOME = 'a-home';
const erase = ({ id, user }: Session, wholeUser = false) =>
  eraseSession(db, { sessionId: id, userId: user, home: HOME, wholeUser });
const prompt = (own: string, sections = ['shared agent', '', '', own, 'shared tools']) => ({
  digest: createHash('sha256').update(own).digest('hex'),
  sections,
});

/** A session with a running run and a row in every session table; all but those of digests contain `canary`. */
async function full(user: string, canary: string): Promise<Session> {
  const session = await Session.at('chatting', db, { user });
  await session.say(canary, { metadata: { canary } });
  await session.say(`${canary} queued`);
  const run = 1;
  await session.claim(run, [0, 1, 1]);
  await session.append(run, [0, 1, 1], [textPart(0, canary, 'prt_1')], [{ part_id: 'prt_1', start: 6, text: canary }]);
  await db.query(`SELECT log_reason($1, 'user', $2, 'cancel:1/reason')`, [session.id, canary]);
  await db.query(`INSERT INTO session_aliases VALUES ($1, $2, $3)`, [user, canary, session.id]);
  await db.query(`INSERT INTO scoped_state VALUES ('session', $1, 'key', $2)`, [session.id, JSON.stringify(canary)]);
  await db.query(`INSERT INTO tool_outputs VALUES ($1, 'call_1', $2)`, [session.id, canary]);
  await db.query('INSERT INTO replays (session_id) VALUES ($1)', [session.id]);
  await db.query(`INSERT INTO work_log VALUES ($1, 1, 0, $2, gen_random_uuid(), '{0,1,1}', 1, 1)`, [
    session.id,
    canary,
  ]);
  await writeCached(db, placeOf(session), 'key', canary, 60_000);
  await keepPrompt(db, session.id, prompt(canary));
  return session;
}

it('T9 every row of a session is deleted, those of others stay, and no tombstone is left', async () => {
  const [session, other] = [await full('ada', 'canary-one'), await full('ada', 'canary-two')];
  expect(await erase(new Session(db, session.id, 'eve'))).toBeUndefined();
  // The tenth table has digests only.
  expect((await tablesWith(db, 'canary-one')).length).toBeGreaterThanOrEqual(9);
  expect(await tablesWith(db, session.id)).toContain('system_prompts');
  const before = await tablesWith(db, 'canary-two');
  expect(await erase(session)).toEqual({ sessions: [session.id], runs: [{ session_id: session.id, run_seq: 1 }] });
  expect(await tablesWith(db, 'canary-one')).toEqual([]);
  expect(await tablesWith(db, session.id)).toEqual(['erasures']);
  expect(await tablesWith(db, 'canary-two')).toEqual(before);
  const { digest, sections } = prompt('canary-two');
  expect(await readPrompt(db, other.id, digest)).toEqual(sections);
  expect(await erase(session)).toBeUndefined();
  const queued = await claimErasures(db, 10);
  expect(new Set(queued.map(({ workflow_id, folder }) => workflow_id ?? folder))).toEqual(
    new Set([session.id, `${HOME}/${session.id}`, `${HOME}/.snapshots/${session.id}`]),
  );
  expect(await claimErasures(db, 10)).toEqual([]);
  await finishErasures(
    db,
    queued.map(({ id }) => id),
  );
  expect(await tablesWith(db, session.id)).toEqual([]);
});

it('T9 a session is erased with its descendants', async () => {
  const [parent, child, grandchild] = await Promise.all([1, 2, 3].map(() => full('ada', newId('msg'))));
  await db.query('UPDATE chat_sessions SET parent_id = $2 WHERE session_id = $1', [child!.id, parent!.id]);
  await db.query('UPDATE chat_sessions SET parent_id = $2 WHERE session_id = $1', [grandchild!.id, child!.id]);
  const ids = [parent!.id, child!.id, grandchild!.id].toSorted();
  expect((await erase(parent!))?.sessions).toEqual(ids);
  for (const id of ids) expect(await tablesWith(db, id)).toEqual(['erasures']);
});

it('P1 T9 sections are stored once, and are deleted with the last session that uses them', async () => {
  const [one, two] = [await Session.at('chatting', db), await Session.at('chatting', db)];
  const shared = ['agent of two', 'instructions', '', 'environment', 'tools of two'];
  for (const session of [one, two]) await keepPrompt(db, session.id, prompt('one', shared));
  const stored = 'SELECT body FROM prompt_sections WHERE body = ANY($1) ORDER BY body';
  const bodies = async () => (await rows(db, stored, [shared.filter(Boolean)])).map(({ body }) => body);
  expect(await bodies()).toEqual(shared.filter(Boolean).toSorted());
  await erase(one);
  expect(await bodies()).toEqual(shared.filter(Boolean).toSorted());
  await erase(two);
  expect(await bodies()).toEqual([]);
});

it('T9 a running step or tool writes nothing after the erasure, and gets `lost`', async () => {
  const session = await full('ada', 'canary-zombie');
  await erase(session);
  const parts = [textPart(0, 'canary-zombie', 'prt_9')];
  expect(await session.append(1, [0, 1, 1], parts)).toBe('lost');
  expect(await session.settleStep(1, [0, 1, 1], { parts })).toEqual({ kind: 'lost' });
  expect(await session.claim(1, [0, 2, 1])).toMatchObject({ kind: 'ended' });
  expect(await session.beginTool(1, [0, 2, 1], 'call_1')).toEqual({ kind: 'lost' });
  expect(await session.finishTool(1, [0, 2, 1], 'call_1')).toEqual({ kind: 'lost' });
  expect(await session.settleRun(1, 'error')).toMatchObject({ kind: 'ended' });
  expect(await session.say('canary-zombie')).toMatchObject({ code: 'SessionNotFound' });
  for (const answer of [await session.abort(), await session.cancel(), await session.close(true)]) {
    expect(answer).toMatchObject({ ok: false, code: 'SessionNotFound' });
  }
  expect((await rows(db, `SELECT log_reason($1, 'user', 'canary-zombie', NULL) AS seq`, [session.id]))[0]).toEqual({
    seq: 0,
  });
  expect((await rows(db, `SELECT note_stuck($1, 'cause') AS noted`, [session.id]))[0]).toEqual({ noted: false });
  await writeCached(db, placeOf(session), 'key', 'canary-zombie', 60_000);
  expect(await readCached(db, placeOf(session), 'key')).toBeUndefined();
  await keepPrompt(db, session.id, prompt('canary-zombie'));
  expect(await tablesWith(db, 'canary-zombie')).toEqual([]);
});

it('T9 messages, batches, prompts and two erasures at once: no deadlock, no error, no row is left', async () => {
  for (let round = 0; round < 15; round += 1) {
    const canary = `canary-${newId('msg')}`;
    const session = await full('ada', canary);
    const batches = Array.from({ length: 4 }, (_, n) =>
      session.append(
        1,
        [0, 1, 1],
        [textPart(n + 5, canary, `prt_${n}x`)],
        [{ part_id: `prt_${n}x`, start: 9, text: canary }],
      ),
    );
    const others = [1, 2, 3].flatMap((n) => [
      session.say(canary),
      keepPrompt(db, session.id, prompt(`${canary} ${n}`)),
      writeCached(db, placeOf(session), `key${n}`, canary, 60_000),
    ]);
    const erasures = [erase(session), erase(session)];
    await Promise.all([...batches, ...others, ...erasures]);
    expect((await Promise.all(erasures)).filter(Boolean)).toHaveLength(1);
    expect(await tablesWith(db, canary)).toEqual([]);
  }
});

/** Takes the folders to remove from the queue. */
async function queuedFolders(): Promise<string[]> {
  const found = await rows(db, 'DELETE FROM erasures WHERE folder IS NOT NULL RETURNING folder');
  return found.map(({ folder }) => String(folder));
}

it('T9 an erasure leaves contents to a sweep, which deletes them one at a time, and none that another session has', async () => {
  const [session, other] = [await Session.at('chatting', db), await Session.at('chatting', db)];
  const contents = new Contents(db);
  const give = async (to: Session, id: string) => {
    const media_type = 'text/plain';
    const digest = createHash('sha256').update(id).digest('hex');
    await attach(db, to.id, { attachment_id: id, content_id: id, digest, media_type, filename: null, size: 3 });
  };
  const ids = ['att_1', 'att_2', 'att_shared'];
  for (const id of ids) {
    await contents.put(id, wholeContent(Buffer.from(id)));
    await give(session, id);
  }
  await give(other, 'att_shared');
  const stored = async () =>
    (await rows(db, 'SELECT content_id FROM attachment_chunks ORDER BY 1')).map(({ content_id }) => content_id);
  await erase(session);
  expect(await tablesWith(db, session.id)).toEqual(['erasures']);
  expect(await stored()).toEqual(ids);
  expect(await contents.sweep(10)).toBe(2);
  expect(await stored()).toEqual(['att_shared']);
  await erase(other);
  expect(await contents.sweep(10)).toBe(1);
  expect(await stored()).toEqual([]);
  expect(await rows(db, 'SELECT FROM attachment_contents')).toEqual([]);
});

it('T9 T10 a sweep asks a bucket that is away once, and deletes what is elsewhere', async () => {
  const store = await startStore();
  afterFile(store.close);
  const contents = new Contents(db, store.s3);
  for (const id of ['att_there_1', 'att_there_2', 'att_there_3']) await contents.put(id, wholeContent(Buffer.from(id)));
  await new Contents(db).put('att_here', wholeContent(Buffer.from('here')));
  await db.query("UPDATE attachment_contents SET unused_since = '-infinity'");
  store.requests.length = 0;
  store.behave(away);
  await expect(contents.sweep(10)).rejects.toThrow('the store of attachments cannot be reached');
  expect(new Set(store.requests).size).toBe(1);
  const left = await rows(db, 'SELECT DISTINCT place FROM attachment_contents');
  expect(left).toEqual([{ place: 's3' }]);
  store.behave();
  await db.query("UPDATE attachment_contents SET unused_since = '-infinity'");
  expect(await contents.sweep(10)).toBe(3);
  expect([...store.objects]).toEqual([]);
});

/** Opens a session with a workspace in the user's folder; null: its own. */
async function openIn(user: string, root: string | null): Promise<Session> {
  const session = new Session(db, newId('ses'), user);
  const at = root && `/workspaces/${HOME}/${root}`;
  await db.query(`SELECT open_session($1, $2, 'a', $3, NULL, '{}', NULL)`, [session.id, user, at]);
  return session;
}

it('T9 a folder that another session or a project uses is kept', async () => {
  const user = 'folders';
  const open = (root: string | null) => openIn(user, root);
  await db.query(`INSERT INTO projects VALUES ('prj-x', $1)`, [user]);
  const [one, two, inner, ofProject] = [
    await open('site'),
    await open('site'),
    await open('site/sub'),
    await open('prj-x'),
  ];
  const queued = async () => (await queuedFolders()).filter((folder) => !folder.includes('/.snapshots/'));
  await queued();
  for (const session of [one, two, ofProject]) {
    await erase(session);
    expect(await queued()).toEqual([`${HOME}/${session.id}`]);
  }
  await erase(inner);
  expect(new Set(await queued())).toEqual(new Set([`${HOME}/${inner.id}`, `${HOME}/site/sub`]));
  const [first] = [await open('both'), await open('both')];
  await erase(first, true);
  expect(new Set(await queued()), 'the whole user is being erased').toEqual(
    new Set([`${HOME}/${first.id}`, `${HOME}/both`]),
  );
});

it('T9 a folder in which a tool of an erased session ends is queued again, unless others use it', async () => {
  const user = 'latecomers';
  const open = (root: string | null) => openIn(user, root);
  const ends = ({ id }: Session, root: string) =>
    noteWritten(
      db,
      { sessionId: id, toolCallId: 'call_1' },
      { ...{ root, before: {}, after: {}, over: false }, ...{ user_id: user, home: HOME } },
    );
  const queuedAfter = async (session: Session, root: string) => {
    await queuedFolders();
    await ends(session, root);
    return queuedFolders();
  };
  const [one, other, branch] = [await open(null), await open('shared'), await open('shared')];
  expect(await queuedAfter(one, `${HOME}/${one.id}`), 'it exists').toEqual([]);
  await erase(one);
  expect(await queuedAfter(one, `${HOME}/${one.id}`)).toEqual([`${HOME}/${one.id}`]);
  await erase(other);
  expect(await queuedAfter(other, `${HOME}/shared`), 'another session is there').toEqual([]);
  await db.query(`INSERT INTO projects VALUES ('prj-late', $1)`, [user]);
  expect(await queuedAfter(other, `${HOME}/prj-late`), 'a project is there').toEqual([]);
  expect(await queuedAfter(other, '../elsewhere'), 'outside').toEqual([]);
  await erase(branch);
  expect(await queuedAfter(other, `${HOME}/shared`)).toEqual([`${HOME}/shared`]);
});

it('T9 a folder that a new session uses is not removed again', async () => {
  const user = 'returning';
  const open = (root: string | null) => openIn(user, root);
  await queuedFolders();
  for (const root of ['site', 'sites', 'deep/site', 'new']) {
    await db.query('SELECT queue_erasure(NULL, $1)', [`${HOME}/${root}`]);
    if (root !== 'new') await db.query('UPDATE erasures SET passes = 1');
  }
  for (const root of ['site/below', 'deep', 'new']) await open(root);
  const left = await rows(db, 'SELECT folder, passes FROM erasures WHERE folder IS NOT NULL ORDER BY 1');
  expect(left, 'what has not been removed yet is, but only once').toEqual([
    { folder: `${HOME}/new`, passes: 1 },
    { folder: `${HOME}/sites`, passes: 1 },
  ]);
  await queuedFolders();
});

it('T9 erasing a user deletes everything: sessions, projects, todos, state', async () => {
  const user = 'user-to-erase';
  const [session] = [await full(user, 'canary-user'), await Session.at('building', db, { user, project: 'prj-erase' })];
  await db.query(`INSERT INTO project_todos VALUES ('prj-erase', 'canary-user')`);
  await db.query(`INSERT INTO scoped_state VALUES ('user', $1, 'key', '"canary-user"')`, [user]);
  for (const id of await someSessionsOf(db, user)) await erase(new Session(db, id, user));
  await queuedFolders();
  for (let times = 0; times < 2; times += 1) await eraseUserRest(db, user, HOME);
  expect(await queuedFolders()).toEqual([`${HOME}/prj-erase`, `${HOME}/.snapshots`, `${HOME}/.snapshots`]);
  expect(await tablesWith(db, 'canary-user')).toEqual([]);
  expect(await tablesWith(db, user)).toEqual([]);
  expect(await tablesWith(db, 'prj-erase')).toEqual([]);
  expect(await tablesWith(db, session.id)).toEqual(['erasures']);
});

it('T9 what an erased user changed for all stays, without the user', async () => {
  const user = 'author-to-erase';
  const service = new PostgresSessionService({ database: db });
  const session = await service.createSession({ appName: 'authors', userId: user });
  const say = (author: string, stateDelta: Record<string, Json>) =>
    service.appendEvent({ session, event: new Event({ author, actions: { stateDelta } }) });
  await say(user, { 'app:motd': 'hi' });
  await say(`called ${user}`, { 'app:motd': 'ho' });
  await say(user, { 'app:motd': 'hu', 'user:name': 'Ada' });
  await service.deleteSession({ appName: 'authors', userId: user, sessionId: session.id });
  await db.query(
    `INSERT INTO scope_events VALUES (nextval('state_versions'), 'authors', NULL, now(), $1, '{"set": {}}')`,
    [user],
  );
  await db.query(
    `INSERT INTO scope_events VALUES (nextval('state_versions'), 'authors', 'eve', now(), 'eve', '{"set": {}}')`,
  );
  await eraseUserRest(db, user, HOME);
  const kept = await rows(
    db,
    `SELECT user_id, author, data -> 'set' AS set FROM scope_events WHERE app = 'authors' ORDER BY version`,
  );
  expect(kept).toEqual([
    ...['hi', 'ho', 'hu'].map((motd) => ({ user_id: null, author: null, set: { 'app:motd': motd } })),
    { user_id: null, author: null, set: {} },
    { user_id: 'eve', author: 'eve', set: {} },
  ]);
  expect((await tablesWith(db, user)).filter((name) => name !== 'erasures')).toEqual([]);
});

it('S10 a cached result is seen by its tool in its scope until it expires, and is in no log', async () => {
  const mine = await Session.at('chatting', db, { user: 'cacher' });
  const neighbour = await Session.at('chatting', db, { user: 'cacher' });
  const stranger = await Session.at('chatting', db, { user: 'stranger' });
  const before = await mine.events();
  for (const scope of ['session', 'user', 'app'] as const)
    await writeCached(db, placeOf(mine, scope), 'key', { scope }, 60_000);
  const seen = async (session: Session, tool?: string) =>
    Promise.all(
      (['session', 'user', 'app'] as const).map((scope) => readCached(db, placeOf(session, scope, tool), 'key')),
    );
  expect(await seen(mine)).toEqual([{ scope: 'session' }, { scope: 'user' }, { scope: 'app' }]);
  expect(await seen(neighbour)).toEqual([undefined, { scope: 'user' }, { scope: 'app' }]);
  expect(await seen(stranger)).toEqual([undefined, undefined, { scope: 'app' }]);
  expect(await seen(mine, 'other_tool')).toEqual([undefined, undefined, undefined]);
  await writeCached(db, placeOf(mine), 'key', 'again', 60_000);
  await db.query(`UPDATE cached_results SET expires_at = clock_timestamp() WHERE scope = 'user'`);
  expect(await seen(mine)).toEqual(['again', undefined, { scope: 'app' }]);
  expect(await mine.events()).toEqual(before);
  await db.query(`SELECT erase_user_rest('cacher', 'home')`);
  expect(await rows(db, `SELECT scope FROM cached_results WHERE owner IN ('', 'cacher')`)).toEqual([{ scope: 'app' }]);
  await db.query('DELETE FROM cached_results');
});

it('S10 apps do not share what a tool caches for a user or for everybody; an erasure deletes a user’s in all apps', async () => {
  const [one, two] = [
    await Session.at('chatting', db, { user: 'customer' }),
    await Session.at('chatting', db, { user: 'customer' }),
  ];
  await db.query(`UPDATE chat_sessions SET app = 'shop' WHERE session_id = $1`, [two.id]);
  for (const scope of ['user', 'app'] as const) {
    await writeCached(db, placeOf(one, scope), 'key', 'one', 60_000);
    expect(await readCached(db, placeOf(two, scope), 'key')).toBeUndefined();
    await writeCached(db, placeOf(two, scope), 'key', 'two', 60_000);
    expect(await readCached(db, placeOf(one, scope), 'key')).toBe('one');
    expect(await readCached(db, placeOf(two, scope), 'key')).toBe('two');
  }
  await db.query(`SELECT erase_user_rest('customer', 'home')`);
  expect(await rows(db, `SELECT app FROM cached_results WHERE owner IN ('', 'customer') ORDER BY app`)).toEqual([
    { app: 'perdure' },
    { app: 'shop' },
  ]);
  await db.query('DELETE FROM cached_results');
});

it('T9 refusals, cached results and truncated tool outputs are deleted by age; everything else stays', async () => {
  const session = await Session.at('chatting', db, { user: 'retention' });
  await session.raise('publish', 'cmd-refused');
  await session.abort('cmd-kept');
  await session.raise('publish', 'cmd-newest');
  await db.query(`INSERT INTO tool_outputs VALUES ($1, 'call_old', 'x', now() - interval '2 days')`, [session.id]);
  await db.query(`INSERT INTO tool_outputs VALUES ($1, 'call_new', 'x')`, [session.id]);
  await writeCached(db, placeOf(session), 'new', 1, 60_000);
  await writeCached(db, placeOf(session), 'old', 1, -1_000);
  const commands = async () => (await session.events()).map(({ command_id }) => command_id).filter((id) => id !== null);
  expect(await sweepRefusals(db, 60_000, 1_000)).toBeUndefined();
  expect(await commands()).toEqual(['cmd-refused', 'cmd-kept', 'cmd-newest']);
  expect(await sweepRefusals(db, 0, 1_000)).toBeDefined();
  expect(await commands(), 'the newest event keeps its number').toEqual(['cmd-kept', 'cmd-newest']);
  expect(await sweepOutputs(db, 86_400_000, 1_000)).toBe(2);
  expect(await rows(db, 'SELECT tool_call_id FROM tool_outputs WHERE session_id = $1', [session.id])).toEqual([
    { tool_call_id: 'call_new' },
  ]);
  expect(await rows(db, 'SELECT key FROM cached_results WHERE owner = $1', [session.id])).toEqual([{ key: 'new' }]);
  expect(await refusal(db.query('DELETE FROM session_events WHERE session_id = $1', [session.id]))).toBe('PD001');
});

it('T9 a sweep deletes bounded batches, and two workers share them', async () => {
  const session = await Session.at('chatting', db, { user: 'batches' });
  const insert = `INSERT INTO tool_outputs SELECT $1, 'call' || n, 'x', now() - interval '2 days' FROM generate_series(1, 25) AS n`;
  await db.query(insert, [session.id]);
  const swept = await Promise.all([sweepOutputs(db, 86_400_000, 10), sweepOutputs(db, 86_400_000, 10)]);
  expect(Math.max(...swept)).toBeLessThanOrEqual(10);
  while ((await sweepOutputs(db, 86_400_000, 10)) > 0);
  expect(await rows(db, 'SELECT FROM tool_outputs WHERE session_id = $1', [session.id])).toEqual([]);
});

/** Bytes that no session has yet, as a row for `attach`. */
async function storedFile() {
  const id = newId('att');
  const { digest, size, bytes } = wholeContent(Buffer.from(id));
  await new Contents(db).put(id, { digest, size, bytes });
  return { attachment_id: id, content_id: id, digest, size, media_type: 'text/plain', filename: null };
}

const contentsOf = (id: string) =>
  rows(db, 'SELECT unused_since IS NOT NULL AS unused FROM attachment_contents WHERE content_id = $1', [id]);

it('T9 T10 what is attached while its session is erased goes with it', async () => {
  const session = await Session.at('chatting', db);
  const file = await storedFile();
  const uploader = await db.connect();
  try {
    await uploader.query('BEGIN');
    await attach(uploader, session.id, file);
    const erased = erase(session);
    await untilBlocked(db);
    await uploader.query('COMMIT');
    await erased;
  } finally {
    uploader.release();
  }
  expect(await rows(db, 'SELECT FROM attachments WHERE session_id = $1', [session.id])).toEqual([]);
  expect(await contentsOf(file.content_id)).toEqual([{ unused: true }]);
});

it('T9 T10 of two erasures at once the second one leaves the bytes that both have to the workers', async () => {
  const [one, other] = [await Session.at('chatting', db), await Session.at('chatting', db)];
  const file = await storedFile();
  for (const { id } of [one, other]) await attach(db, id, file);
  const first = await db.connect();
  try {
    await first.query('BEGIN');
    await first.query('SELECT drop_attachments($1)', [[one.id]]);
    const second = erase(other);
    await untilBlocked(db);
    await first.query('COMMIT');
    await second;
  } finally {
    first.release();
  }
  expect(await contentsOf(file.content_id)).toEqual([{ unused: true }]);
});

it('T10 a worker that comes too late deletes no file, and what it has deleted is not attached', async () => {
  const session = await Session.at('chatting', db);
  const file = await storedFile();
  await attach(db, session.id, file);
  await db.query('SELECT drop_content($1)', [file.content_id]);
  expect(await contentsOf(file.content_id)).toEqual([{ unused: false }]);
  const chunks = 'SELECT FROM attachment_chunks WHERE content_id = $1';
  expect(await rows(db, chunks, [file.content_id])).toHaveLength(1);
  const gone = await storedFile();
  await db.query('SELECT drop_content($1)', [gone.content_id]);
  await expect(attach(db, session.id, gone)).rejects.toThrow('was deleted before it was attached');
  const line = JSON.stringify({ ...gone, kind: 'attachment', id: 'att_x', created_at: '2026-01-01T00:00:00Z' });
  await expect(db.query('SELECT import_lines($1, $2)', [session.id, [line]])).rejects.toThrow(
    'was deleted before it was attached',
  );
});
