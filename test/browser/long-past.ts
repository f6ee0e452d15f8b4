import { expect } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { type Compactions, compactPast, insertPast } from '../../tools/test-kit/long-past.ts';
import type { TestSite } from '../../tools/test-kit/page.ts';

/** A page with a conversation of so many turns, which was compacted. */
export async function longPast(site: TestSite, turns: number, compactions?: Omit<Compactions, 'turns'>) {
  const tab = await site.visit();
  const context = tab.page.context();
  // The first response makes the tab a user: a request beside it would be made by another one.
  await eventually(async () => expect(await context.cookies()).toHaveLength(1));
  const created = await context.request.post(`${site.host.url}/api/sessions`, { data: {} });
  const { session_id } = ((await created.json()) as { session: { session_id: string } }).session;
  const client = await site.runtime.db.connect();
  await insertPast(client, [session_id], { to: turns, text: (role) => `'${role} number ' || n` });
  if (compactions) await compactPast(client, session_id, { turns, ...compactions });
  client.release();
  await tab.page.goto(`${site.host.url}/s/${session_id}`);
  await tab.answers.getByText(`assistant number ${turns}`, { exact: true }).waitFor();
  return { tab, main: tab.page.getByRole('main') };
}
