import type { Driver } from '../driver.ts';
import type { Evidence } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import { digest } from '../plan.ts';

/** Who reads, in which session. */
interface Reader {
  api: Pick<Driver['api'], 'fetch' | 'user'>;
  session: string;
}

/** Each file that was accepted is there, for its user, and in branches, too; models got it; and nobody else can read it. */
export async function checkAttachments(ledger: Ledger, evidence: Evidence): Promise<void> {
  const { drivers, calls, branches, parts, sessionOf } = evidence;
  const readers = drivers.map((driver) => ({ api: driver.api, session: sessionOf(driver) }));
  const files = new Map<string, string>();
  for (const driver of drivers) {
    for (const file of driver.files.uploaded) files.set(file.url, file.digest);
    await checkFiles(ledger, driver, readers, sessionOf(driver));
    for (const { id, file } of driver.sent) {
      for (const call of calls.filter(({ messageId }) => file && messageId === id)) {
        const same = call.files.join() === file?.digest;
        ledger.check('a model gets the file of its message', `request ${call.number}`, same, () => [file, call.files]);
      }
    }
  }
  const owners = new Map(evidence.branches.chats.map(({ session_id, parent_id }) => [session_id, parent_id]));
  for (const { session_id, data } of branches.parts.filter((part) => part.data.type === 'file')) {
    const owner = readers.find(({ session }) => session === owners.get(session_id));
    if (owner === undefined) continue;
    const found = await read({ api: owner.api, session: session_id }, String(data['url']));
    const same = found === files.get(String(data['url']));
    ledger.check('no attachment is lost', `branch ${session_id}`, same, () => [data, found, parts.length]);
  }
}

/** The files of one user's session, through that session, through another user's own session, and as another user. */
export async function checkFiles(
  ledger: Ledger,
  { api, files }: Pick<Driver, 'api' | 'files'>,
  readers: readonly Reader[],
  session: string,
): Promise<void> {
  const other = readers.find((reader) => reader.api.user !== api.user);
  for (const { url, digest: wanted } of files.uploaded) {
    const where = `session ${session}, ${url}`;
    const found = await read({ api, session }, url);
    ledger.check('no attachment is lost', where, found === wanted, () => ({ found, wanted }));
    if (other === undefined) continue;
    for (const through of [session, other.session]) {
      const seen = await read({ api: other.api, session: through }, url);
      ledger.check('no attachment is readable by others', where, seen === 404, () => ({ through, seen }));
    }
  }
}

/** The digest of a file, or the status of the refusal. */
async function read({ api, session }: Reader, url: string): Promise<string | number> {
  const response = await api.fetch(`/api/sessions/${session}/attachments/${url.replace('perdure:', '')}`);
  const bytes = await response.bytes();
  return response.status === 200 ? digest(bytes) : response.status;
}
