import type pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { keepPrompt } from '../../store/prompts.ts';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

let db: pg.Pool;
let host: TestHost;
let ada: TestCaller;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  host = await startHost({ databaseUrl });
  ada = host.as('ada');
  db = patientPool(databaseUrl);
});
afterAll(() => db.end());

it('P1 a system prompt is served by its digest, to users with a session that has it', async () => {
  const { session } = (await ada.post('/api/sessions', {})).body as { session: { session_id: string } };
  const digest = 'ab'.repeat(32);
  const sections = { agent: 'Be kind.', instructions: '', skills: '', environment: '# Environment', tools: '[]' };
  await keepPrompt(db, session.session_id, { digest, sections: Object.values(sections) });
  expect(await ada.get(`/api/prompts/${digest}`)).toMatchObject({ status: 200, body: { digest, sections } });
  const missing = { status: 404, body: { code: 'PromptNotFound' } };
  for (const other of ['cd'.repeat(32), 'x', `${digest}0`, '%00']) {
    expect(await ada.get(`/api/prompts/${other}`)).toMatchObject(missing);
  }
  expect(await host.as('eve').get(`/api/prompts/${digest}`)).toMatchObject(missing);
});

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
