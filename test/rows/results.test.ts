import { expect, it } from 'vitest';
import { z } from 'zod';
import { call } from '../../store/db.ts';
import { readEvents } from '../../store/events.ts';
import { freshRows, Session } from './session.ts';

const db = await freshRows();

it('P8 results of SQL functions are parsed: an unexpected shape is an error that names the function and contains no value', async () => {
  const session = await Session.at('chatting', db);
  await session.say('a secret');
  const result = call(db, z.object({ kind: z.literal('claimed') }), 'load_session', [
    session.id,
    'execution',
    1,
    0,
    '',
  ]);
  const error: unknown = await result.catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ message: 'load_session() returned an unexpected value' });
  expect(String((error as Error).cause)).toContain('kind');
  expect(JSON.stringify([error, (error as Error).cause])).not.toContain(session.id);
});

it('S12 an event that does not match the schema is an error, and events of tools match it', async () => {
  const session = await Session.at('chatting', db);
  const run = await session.runWithCalls(['call_1']);
  await session.beginTool(run, [0, 2, 1], 'call_1', { event: 'start_build', at: 'start', project: null });
  const { items } = await readEvents(db, session.id, 0, 10);
  expect(items.map(({ actor }) => actor)).toEqual(['user', 'tool']);
  await call(db, z.unknown(), 'append_event', [session.id, 'extra', 'nobody', '{}', null]);
  await expect(readEvents(db, session.id, 0, 10)).rejects.toThrow(z.ZodError);
});

it('S12 a page of the log has at most 8 MiB, and says that there is more', async () => {
  const session = await Session.at('chatting', db);
  const data = JSON.stringify({ text: 'x'.repeat(3 * 1024 * 1024) });
  for (let n = 0; n < 3; n += 1) await call(db, z.unknown(), 'append_event', [session.id, 'extra', 'user', data, null]);
  const first = await readEvents(db, session.id, 0, 10);
  expect(first).toMatchObject({ items: [{ seq: 1 }, { seq: 2 }, { seq: 3 }], more: true });
  expect(await readEvents(db, session.id, 3, 10)).toMatchObject({ items: [{ seq: 4 }], more: false });
  expect(await readEvents(db, session.id, 0, 1)).toMatchObject({ items: [{ seq: 1 }], more: true });
});
