import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { call, freshRows, refusal, rows, Session } from './session.ts';

const db = await freshRows({ max: 20 });

const ownerOf = async (project: string) =>
  (await rows(db, 'SELECT user_id FROM projects WHERE project_id = $1', [project])).map((row) => row['user_id']);

it('S3 the project is written once, by a conditional update', async () => {
  const session = await Session.at('chatting', db);
  const lock = (project: string) => call<boolean>(db, 'write_project_id', [session.id, project]);
  expect(await lock('prj-1')).toBe(true);
  const locked = await session.row();
  expect(await lock('prj-2')).toBe(false);
  expect(await lock('prj-1')).toBe(true);
  expect(await session.row()).toEqual(locked);
  expect(locked['project_id']).toBe('prj-1');
});

it('S3 opening the same project again is no error and changes only the phase of a session that was done', async () => {
  const project = newId('prj');
  const session = await Session.at('chatting', db, { project });
  const before = await session.row();
  expect(await session.openExisting(project)).toMatchObject({ ok: true, phase: 'chatting', project_id: project });
  expect({ ...(await session.row()), updated_at: null }).toEqual({ ...before, updated_at: null });

  for (const event of ['start_build', 'todo_done_build', 'publish'] as const) await session.raise(event);
  expect(await session.openExisting(project)).toMatchObject({ ok: true, phase: 'chatting', project_id: project });
  expect({ ...(await session.row()), updated_at: null }).toEqual({ ...before, updated_at: null });
});

it('S3 of two projects opened concurrently one is locked and the other refused', async () => {
  for (let round = 0; round < 20; round += 1) {
    const session = await Session.at('chatting', db);
    const projects = Array.from({ length: 4 }, () => newId('prj'));
    const answers = await Promise.all(projects.map((project) => session.openExisting(project)));
    const { project_id: locked } = await session.row();
    expect(projects).toContain(locked);
    for (const [index, answer] of answers.entries()) {
      const won = projects[index] === locked;
      expect(answer).toMatchObject(
        won ? { ok: true } : { ok: false, code: 'ProjectAlreadyLocked', locked_project_id: locked },
      );
      expect(await ownerOf(projects[index]!)).toEqual(won ? ['ada'] : []);
    }
  }
});

it('S10 the first opener owns a project, and no other user can open it', async () => {
  const project = newId('prj');
  const ada = await Session.at('chatting', db, { project });
  const second = await Session.at('chatting', db);
  expect(await second.openExisting(project)).toMatchObject({ ok: true, project_id: project });
  const eve = await Session.at('chatting', db, { user: 'eve' });
  const before = await eve.row();
  expect(await eve.openExisting(project)).toMatchObject({ ok: false, code: 'ProjectNotFound' });
  expect(await eve.row()).toEqual(before);
  expect(await ownerOf(project)).toEqual([ada.user]);
});

it('S10 opening a session on another user’s project creates no session', async () => {
  const project = newId('prj');
  await Session.at('chatting', db, { project });
  const id = newId('ses');
  const opening = call(db, 'open_session', [id, 'eve', 'site-builder', null, null, '{}', project]);
  expect(await opening).toBe(false);
  expect(await rows(db, 'SELECT FROM sessions WHERE session_id = $1', [id])).toEqual([]);
});

it('S10 of users who open the same project concurrently one owns it', async () => {
  for (let round = 0; round < 20; round += 1) {
    const project = newId('prj');
    const sessions = await Promise.all(
      ['ada', 'eve', 'bob', 'joe'].map((user) => Session.at('chatting', db, { user })),
    );
    const answers = await Promise.all(sessions.map((session) => session.openExisting(project)));
    const [owner] = await ownerOf(project);
    for (const [index, answer] of answers.entries()) {
      expect(answer['ok']).toBe(sessions[index]!.user === owner);
    }
  }
});

it('S10 an alias names one session of its user, also after concurrent first uses', async () => {
  const open = (user: string) =>
    call<string>(db, 'open_alias', ['tab-1', newId('ses'), user, 'site-builder', null, null, '{}']);
  const ids = new Set(await Promise.all(Array.from({ length: 10 }, () => open('ada'))));
  expect(ids.size).toBe(1);
  expect(ids).not.toContain(await open('eve'));
  expect(await refusal(call(db, 'open_alias', ['', newId('ses'), 'ada', 'site-builder', null, null, '{}']))).toBe(
    '23514',
  );
});
