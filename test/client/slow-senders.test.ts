// Senders of files and imports that send nothing, of several users, until all places are theirs.
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';

let host: TestHost;
beforeAll(async () => {
  host = await startHost({ databaseUrl: await freshDatabase() });
});

/** Bodies that begin, and send the rest when they are let; `begun` counts them. */
class Senders {
  begun = 0;
  private readonly rest = Promise.withResolvers<void>();

  async *body(beginning: string, rest = ''): AsyncGenerator<Uint8Array> {
    this.begun += 1;
    yield Buffer.from(beginning);
    await this.rest.promise;
    yield Buffer.from(rest);
  }

  goOn(): void {
    this.rest.resolve();
  }
}

const codeOf = (error: unknown) => (error as { code?: string }).code ?? String(error);

/** How the sends of slow users end after another user was served: each is `ok` or an error's code. */
async function served(sent: Promise<unknown>[], senders: Senders, other: () => Promise<unknown>): Promise<string[]> {
  const ends = sent.map((each) => each.then(() => 'ok', codeOf));
  await other();
  senders.goOn();
  return Promise.all(ends);
}

async function* of(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

it('T10 an upload that sends nothing loses its place to another user’s, and only as many as are needed', async () => {
  const sessionOf = async (user: string) => (await host.client.openSession(user)).session.session_id;
  // Twice: a place that was given up counts until its sender has ended, and not for the next time.
  for (let time = 1; time <= 2; time += 1) {
    const senders = new Senders();
    const slow: Promise<unknown>[] = [];
    for (const user of ['ada', 'bob', 'cleo', 'dan']) {
      const session = await sessionOf(user);
      for (let n = 0; n < 4; n += 1) {
        const content = senders.body(`file ${n} of ${user}`);
        slow.push(host.client.attach(user, session, { content, mediaType: 'text/plain' }));
      }
    }
    const session = await sessionOf('eve');
    await eventually(() => expect(senders.begun).toBe(16));
    const ends = await served(slow, senders, () =>
      host.client.attach('eve', session, { content: of('of eve'), mediaType: 'text/plain' }),
    );
    expect(ends.filter((end) => end === 'Unavailable')).toHaveLength(1);
    expect(ends.filter((end) => end === 'ok')).toHaveLength(15);
  }
});

it('T7 an import that sends nothing loses its place to another user’s; a user has two places', async () => {
  const opened = await host.client.openSession('fay');
  const bytes = await Array.fromAsync(host.client.exportSession('fay', opened.session.session_id));
  const text = Buffer.concat(bytes).toString();
  const senders = new Senders();
  const slow = ['ada', 'ada', 'ada', 'bob', 'bob'].map((user) =>
    host.client.importSession(user, senders.body(text.slice(0, 10), text.slice(10))),
  );
  await eventually(() => expect(senders.begun).toBe(4));
  const ends = await served(slow, senders, () => host.client.importSession('eve', of(text)));
  expect(ends).toContain('Unavailable');
  expect(ends).toContain('ok');
});

it('T10 an upload whose sender has gone leaves the line of those that wait', async () => {
  const { session } = await host.client.openSession('gil');
  const senders = new Senders();
  const file = (content: AsyncGenerator<Uint8Array>) => ({ content, mediaType: 'text/plain' });
  const slow = Array.from({ length: 4 }, (_, n) =>
    host.client.attach('gil', session.session_id, file(senders.body(`file ${n}`))),
  );
  await eventually(() => expect(senders.begun).toBe(4));
  const found = vi.spyOn(host.client, 'findSession');
  onTestFinished(() => found.mockRestore());
  const leaving = new AbortController();
  const { signal } = leaving;
  const inProcess = host.client.attach('gil', session.session_id, file(senders.body('never read')), { signal });
  const overHttp = host.as('gil').fetch(`/api/sessions/${session.session_id}/attachments`, {
    method: 'POST',
    body: 'never stored',
    headers: { 'content-type': 'text/plain' },
    signal,
  });
  const metrics = async () => (await host.as('gil').fetch('/metrics')).text();
  const ends = Promise.all([inProcess, overHttp].map((each) => each.catch((error: unknown) => (error as Error).name)));
  await eventually(() => expect(found).toHaveBeenCalledTimes(3));
  leaving.abort();
  expect(await ends).toEqual(['AbortError', 'AbortError']);
  // No refusal: its caller is not there to be refused.
  const left = /perdure_http_request_seconds_count\{[^}]*attachments[^}]*status="499"[^}]*\} 1$/m;
  await eventually(async () => expect(await metrics()).toMatch(left));
  expect(await metrics()).not.toContain('{command="attach",code="Unavailable"}');
  expect(host.logs.filter(({ level }) => level >= 40)).toEqual([]);
  senders.goOn();
  expect(await Promise.all(slow)).toHaveLength(4);
  expect(senders.begun).toBe(4);
});
