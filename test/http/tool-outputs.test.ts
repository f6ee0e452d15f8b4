import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startHost, type TestCaller } from '../../tools/test-kit/host.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

let db: pg.Pool;
let ada: TestCaller;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  ada = (await startHost({ databaseUrl })).as('ada');
  db = new pg.Pool({ connectionString: databaseUrl });
});
afterAll(() => db.end());

it('R7 a stored tool output is served as plain text that no browser renders as a page', async () => {
  const { session } = (await ada.post('/api/sessions', {})).body as { session: { session_id: string } };
  const outputs = `/api/sessions/${session.session_id}/tool-outputs`;
  await db.query("INSERT INTO tool_outputs VALUES ($1, 'call_1', '<script>alert(1)</script>')", [session.session_id]);
  const answer = await ada.get(`${outputs}/call_1`);
  expect(answer).toMatchObject({ status: 200, body: '<script>alert(1)</script>' });
  expect(answer.headers.get('content-type')).toMatch(/^text\/plain/);
  expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  const missing = await ada.get(`${outputs}/call_2`);
  expect(missing).toMatchObject({ status: 404, body: { code: 'ToolOutputNotFound' } });
});
