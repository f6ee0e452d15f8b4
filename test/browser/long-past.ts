import { insertPast } from '../../tools/test-kit/long-past.ts';
import type { TestSite } from '../../tools/test-kit/page.ts';

/** A page with a conversation of so many turns. */
export async function longPast(site: TestSite, turns: number) {
  const tab = await site.visit();
  const created = await tab.page.context().request.post(`${site.host.url}/api/sessions`, { data: {} });
  const { session_id } = ((await created.json()) as { session: { session_id: string } }).session;
  const client = await site.runtime.db.connect();
  await insertPast(client, [session_id], { to: turns, text: (role) => `'${role} number ' || n` });
  client.release();
  await tab.page.goto(`${site.host.url}/s/${session_id}`);
  await tab.answers.getByText(`assistant number ${turns}`, { exact: true }).waitFor();
  return { tab, main: tab.page.getByRole('main') };
}
