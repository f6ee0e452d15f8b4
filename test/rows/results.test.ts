import { expect, it } from 'vitest';
import { z } from 'zod';
import { call } from '../../store/db.ts';
import { readEvents } from '../../store/events.ts';
import { freshRows, Session } from './session.ts';

const db = await freshRows();

it('P8 results of SQL functions are parsed: an unexpected shape is an error that names the function and contains no value', async () => {
  const session = await Session.at('chatting', db);
  await session.say('a secret');
  const result = call(db, z.object({ kind: z.literal('claimed') }), 'load_session', [session.id, 'execution', 1, 0]);
  const error: unknown = await result.catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ message: 'load_session() returned an unexpected value' });
  expect(String((error as Error).cause)).toContain('kind');
  expect(JSON.stringify([error, (error as Error).cause])).not.toContain(session.id);
});

it('S12 an event that does not match the schema is an error, and events of tools match it', async () => {
  const session = await Session.at('chatting', db);
  const run = await session.runWithCalls(['call_1']);
  await session.beginTool(run, [0, 2, 1], 'call_1', { event: 'start_build', at: 'start', project: null });
  const log = await readEvents(db, session.id, 0, 10);
  expect(log.map(({ actor }) => actor)).toEqual(['user', 'tool']);
  await call(db, z.unknown(), 'append_event', [session.id, 'extra', 'nobody', '{}', null]);
  await expect(readEvents(db, session.id, 0, 10)).rejects.toThrow(z.ZodError);
});
