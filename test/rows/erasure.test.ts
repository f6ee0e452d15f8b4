import { createHash } from 'node:crypto';
// Erasure and retention in the database: what is deleted, what stays, and that nothing is written afterwards.
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { claimErasures, eraseSession, eraseUserRest, finishErasures, someSessionsOf } from '../../store/erasure.ts';
import { keepPrompt, readPrompt } from '../../store/prompts.ts';
import { sweepOutputs, sweepRefusals } from '../../store/retention.ts';
import { readCache, writeCache } from '../../store/tools.ts';
import { allRows } from '../attacks/rows.ts';
import { freshRows, refusal, rows, Session, textPart } from './session.ts';

const db = await freshRows();
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
  await writeCache(db, session.id, 'key', canary, 60_000);
  await keepPrompt(db, session.id, prompt(canary));
  return session;
}

async function tablesWith(text: string): Promise<string[]> {
  const tables = Object.entries(await allRows(db));
  return tables.filter(([, content]) => content.includes(text)).map(([name]) => name);
}

it('T9 every row of a session is deleted, those of others stay, and no tombstone is left', async () => {
  const [session, other] = [await full('ada', 'canary-one'), await full('ada', 'canary-two')];
  expect(await erase(new Session(db, session.id, 'eve'))).toBeUndefined();
  // The tenth table has digests only.
  expect((await tablesWith('canary-one')).length).toBeGreaterThanOrEqual(9);
  expect(await tablesWith(session.id)).toContain('system_prompts');
  const before = await tablesWith('canary-two');
  expect(await erase(session)).toEqual({ sessions: [session.id], runs: [{ session_id: session.id, run_seq: 1 }] });
  expect(await tablesWith('canary-one')).toEqual([]);
  expect(await tablesWith(session.id)).toEqual(['erasures']);
  expect(await tablesWith('canary-two')).toEqual(before);
  const { digest, sections } = prompt('canary-two');
  expect(await readPrompt(db, other.id, digest)).toEqual(sections);
  expect(await erase(session)).toBeUndefined();
  const queued = await claimErasures(db, 10);
  expect(new Set(queued.map(({ workflow_id, folder }) => workflow_id ?? folder))).toEqual(
    new Set([session.id, `${HOME}/${session.id}`]),
  );
  expect(await claimErasures(db, 10)).toEqual([]);
  await finishErasures(
    db,
    queued.map(({ id }) => id),
  );
  expect(await tablesWith(session.id)).toEqual([]);
});

it('T9 a session is erased with its descendants', async () => {
  const [parent, child, grandchild] = await Promise.all([1, 2, 3].map(() => full('ada', newId('msg'))));
  await db.query('UPDATE chat_sessions SET parent_id = $2 WHERE session_id = $1', [child!.id, parent!.id]);
  await db.query('UPDATE chat_sessions SET parent_id = $2 WHERE session_id = $1', [grandchild!.id, child!.id]);
  const ids = [parent!.id, child!.id, grandchild!.id].toSorted();
  expect((await erase(parent!))?.sessions).toEqual(ids);
  for (const id of ids) expect(await tablesWith(id)).toEqual(['erasures']);
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
  await writeCache(db, session.id, 'key', 'canary-zombie', 60_000);
  expect(await readCache(db, session.id, 'key')).toBeUndefined();
  await keepPrompt(db, session.id, prompt('canary-zombie'));
  expect(await tablesWith('canary-zombie')).toEqual([]);
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
      writeCache(db, session.id, `key${n}`, canary, 60_000),
    ]);
    const erasures = [erase(session), erase(session)];
    await Promise.all([...batches, ...others, ...erasures]);
    expect((await Promise.all(erasures)).filter(Boolean)).toHaveLength(1);
    expect(await tablesWith(canary)).toEqual([]);
  }
});

it('T9 a folder that another session or a project uses is kept', async () => {
  const user = 'folders';
  const open = async (root: string | null) => {
    const session = new Session(db, newId('ses'), user);
    const at = root && `/workspaces/${HOME}/${root}`;
    await db.query(`SELECT open_session($1, $2, 'a', $3, NULL, '{}', NULL)`, [session.id, user, at]);
    return session;
  };
  await db.query(`INSERT INTO projects VALUES ('prj-x', $1)`, [user]);
  const [one, two, inner, ofProject] = [
    await open('site'),
    await open('site'),
    await open('site/sub'),
    await open('prj-x'),
  ];
  const queued = async () =>
    (await rows(db, 'DELETE FROM erasures WHERE folder IS NOT NULL RETURNING folder')).map(({ folder }) => folder);
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

it('T9 erasing a user deletes everything: sessions, projects, todos, state', async () => {
  const user = 'user-to-erase';
  const [session] = [await full(user, 'canary-user'), await Session.at('building', db, { user, project: 'prj-erase' })];
  await db.query(`INSERT INTO project_todos VALUES ('prj-erase', 'canary-user')`);
  await db.query(`INSERT INTO scoped_state VALUES ('user', $1, 'key', '"canary-user"')`, [user]);
  for (const id of await someSessionsOf(db, user)) await erase(new Session(db, id, user));
  for (let times = 0; times < 2; times += 1) await eraseUserRest(db, user, HOME);
  expect(await tablesWith('canary-user')).toEqual([]);
  expect(await tablesWith(user)).toEqual([]);
  expect(await tablesWith('prj-erase')).toEqual(['erasures']);
  expect(await tablesWith(session.id)).toEqual(['erasures']);
});

it('T9 refusals, cached results and truncated tool outputs are deleted by age; everything else stays', async () => {
  const session = await Session.at('chatting', db, { user: 'retention' });
  await session.raise('publish', 'cmd-refused');
  await session.abort('cmd-kept');
  await session.raise('publish', 'cmd-newest');
  await db.query(`INSERT INTO tool_outputs VALUES ($1, 'call_old', 'x', now() - interval '2 days')`, [session.id]);
  await db.query(`INSERT INTO tool_outputs VALUES ($1, 'call_new', 'x')`, [session.id]);
  await writeCache(db, session.id, 'new', 1, 60_000);
  await db.query(`INSERT INTO tool_cache VALUES ($1, 'old', '1', now() - interval '1 s')`, [session.id]);
  const commands = async () => (await session.events()).map(({ command_id }) => command_id).filter((id) => id !== null);
  expect(await sweepRefusals(db, 60_000, 1_000)).toBeUndefined();
  expect(await commands()).toEqual(['cmd-refused', 'cmd-kept', 'cmd-newest']);
  expect(await sweepRefusals(db, 0, 1_000)).toBeDefined();
  expect(await commands(), 'the newest event keeps its number').toEqual(['cmd-kept', 'cmd-newest']);
  expect(await sweepOutputs(db, 86_400_000, 1_000)).toBe(2);
  expect(await rows(db, 'SELECT tool_call_id FROM tool_outputs WHERE session_id = $1', [session.id])).toEqual([
    { tool_call_id: 'call_new' },
  ]);
  expect(await rows(db, 'SELECT key FROM tool_cache WHERE session_id = $1', [session.id])).toEqual([{ key: 'new' }]);
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
