import { createHmac } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { DefaultChatTransport, readUIMessageStream } from 'ai';
import { exportSPKI, SignJWT } from 'jose';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { tokenUser } from '../../host/token.ts';
import { newId } from '../../domain/ids.ts';
import { type Answer, eventsOf, startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { type IssuerKey, issuerKey, type KeyServer, startKeyServer } from '../../tools/test-kit/key-server.ts';
import { freePort, freshDatabase } from '../../tools/test-kit/servers.ts';

// Hosts that take tokens, asked over HTTP; keys come from a server of their issuer.

const ISSUER = 'https://id.example';
const SECRET = 'a secret of sixty-four bytes, so that HS256 and HS512 both do...';
const ANOTHER_SECRET = 'another secret of at least thirty-two bytes';
const NOW = () => Math.floor(Date.now() / 1000);

let databaseUrl: string;
let first: IssuerKey;
beforeAll(async () => {
  databaseUrl = await freshDatabase();
  first = await issuerKey('first');
});

function claimsOf(claims: object = {}) {
  return { iss: ISSUER, aud: 'perdure', sub: 'ada', exp: NOW() + 60, ...claims };
}

function bySecret(claims: object = {}, { key = SECRET, alg = 'HS256' } = {}): Promise<string> {
  return new SignJWT(claimsOf(claims)).setProtectedHeader({ alg }).sign(new TextEncoder().encode(key));
}

function byKey(key: IssuerKey, claims: object = {}, header: object = {}): Promise<string> {
  const { alg, kid } = key;
  return new SignJWT(claimsOf(claims)).setProtectedHeader({ alg, kid, ...header }).sign(key.privateKey);
}

/** A token made by hand, for what no library would make. */
function handMade(header: object, claims: object, sign: (signed: string) => string): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${encode(header)}.${encode(claims)}`;
  return `${signed}.${sign(signed)}`;
}

const hmac = (key: string) => (signed: string) => createHmac('sha256', key).update(signed).digest('base64url');

/** Asks for a session with what stands in the header Authorization, and says whose it is. */
async function ask(host: TestHost, authorization?: string): Promise<Answer & { user?: string }> {
  const answer = await host.as('mallory').post('/api/sessions', {}, authorization ? { authorization } : {});
  return { ...answer, user: answer.body.session?.user_id };
}

/** RFC 6750, 3: of a token that does not hold the challenge says so, and where there was none it is the scheme alone. */
function expectRefused(answer: Answer, challenge = 'Bearer error="invalid_token"'): void {
  expect(answer).toMatchObject({ status: 401, body: { code: 'Unauthorized' } });
  expect(answer.headers.get('www-authenticate')).toBe(challenge);
}

/** No part of a token that was sent stands in what the host has logged or answered. */
function expectUnsaid(host: TestHost, token: string, answer?: Answer): void {
  const said = JSON.stringify([host.logs, answer?.body]);
  for (const part of token.split('.')) if (part) expect(said).not.toContain(part);
}

describe('a host whose tokens are signed with a secret', () => {
  let host: TestHost;
  beforeAll(async () => {
    const identify = tokenUser({ secret: SECRET, issuer: ISSUER, audience: 'perdure' });
    host = await startHost({ databaseUrl, parts: { identify } });
  });

  it('H3 takes the subject for the user, whatever else a request says of itself', async () => {
    expect(await ask(host, `Bearer ${await bySecret()}`)).toMatchObject({ status: 201, user: 'ada' });
  });

  it.each(['bearer', 'BEARER'])('H3 takes the scheme as %s', async (scheme) => {
    expect(await ask(host, `${scheme} ${await bySecret()}`)).toMatchObject({ status: 201, user: 'ada' });
  });

  it.each([
    ['of HS512, with a secret that is as long', () => bySecret({}, { alg: 'HS512' })],
    ['of one of several audiences', () => bySecret({ aud: ['other', 'perdure'] })],
    ['that ended two seconds ago', () => bySecret({ exp: NOW() - 2 })],
    ['that begins in two seconds', () => bySecret({ nbf: NOW() + 2 })],
    ['of the longest subject', () => bySecret({ sub: 's'.repeat(128) })],
  ])('H3 takes a token %s', async (_what, make) => {
    expect(await ask(host, `Bearer ${await make()}`)).toMatchObject({ status: 201 });
  });

  it.each([
    ['of another secret', () => bySecret({}, { key: ANOTHER_SECRET })],
    ['that has ended', () => bySecret({ exp: NOW() - 30 })],
    ['that has not begun', () => bySecret({ nbf: NOW() + 30 })],
    ['of another issuer', () => bySecret({ iss: 'https://evil.example' })],
    ['of no issuer', () => bySecret({ iss: undefined })],
    ['for another audience', () => bySecret({ aud: 'other' })],
    ['for no audience', () => bySecret({ aud: undefined })],
    ['that never expires', () => bySecret({ exp: undefined })],
    ['without a subject', () => bySecret({ sub: undefined })],
    ['of an empty subject', () => bySecret({ sub: '' })],
    ['of a subject that is too long', () => bySecret({ sub: 's'.repeat(129) })],
    ['of a subject with control characters', () => bySecret({ sub: 'ada\n' })],
    ['of a subject that is a number', () => handMade({ alg: 'HS256' }, claimsOf({ sub: 5 }), hmac(SECRET))],
    ['of no algorithm', () => handMade({ alg: 'none' }, claimsOf(), () => '')],
    ['of no algorithm, with a signature', () => handMade({ alg: 'nOnE' }, claimsOf(), hmac(SECRET))],
    ['of a public key', () => byKey(first)],
    ['whose claims were changed', async () => changed(await bySecret())],
    ['that is none', () => 'gibberish'],
  ])('H3 refuses a token %s, and says nothing of it', async (_what, make) => {
    const token = await make();
    const answer = await ask(host, `Bearer ${token}`);
    expectRefused(answer);
    expectUnsaid(host, token, answer);
  });

  it.each([
    ['nothing', undefined],
    ['another scheme', 'Basic YWRhOmFkYQ=='],
    ['no token', 'Bearer'],
  ])('H3 refuses %s', async (_what, authorization) => {
    expectRefused(await ask(host, authorization), 'Bearer');
  });

  it('H3 refuses two headers, whichever comes first, and two tokens in one', async () => {
    const [good, bad] = [await bySecret(), await bySecret({ sub: 'eve' }, { key: ANOTHER_SECRET })];
    for (const tokens of [
      [good, bad],
      [bad, good],
    ]) {
      expectRefused(await ask(host, `Bearer ${tokens[0]}, Bearer ${tokens[1]}`), 'Bearer');
      expect(await statusOfTwo(host, tokens)).toBe(401);
    }
  });

  it('H3 shows a user nothing of another', async () => {
    const [ada, eve] = [`Bearer ${await bySecret()}`, `Bearer ${await bySecret({ sub: 'eve' })}`];
    const id = (await ask(host, ada)).body.session.session_id as string;
    const read = async (authorization: string) =>
      (await host.as('ada').fetch(`/api/sessions/${id}`, { headers: { authorization } })).status;
    expect([await read(ada), await read(eve)]).toEqual([200, 404]);
  });

  it('H3 makes nothing of a secret that is too short, of two ways to verify, or of none', () => {
    expect(() => tokenUser({ secret: 's'.repeat(31) })).toThrow('at least 32 bytes');
    expect(() => tokenUser({ secret: SECRET, jwksUrl: 'https://id.example/jwks' })).toThrow('either');
    expect(() => tokenUser({})).toThrow('either');
  });

  it('H3 takes no HS512 with a secret that is shorter than its hash', async () => {
    const identify = tokenUser({ secret: ANOTHER_SECRET });
    const asked = async (alg: string) => {
      const token = await bySecret({}, { key: ANOTHER_SECRET, alg });
      return identify(new Request('http://localhost/api', { headers: { authorization: `Bearer ${token}` } }));
    };
    expect(await asked('HS256')).toEqual({ user: 'ada', expiresAt: expect.any(Number) });
    await expect(asked('HS512')).rejects.toMatchObject({ code: 'Unauthorized' });
  });
});

describe('a token that expires', () => {
  let host: TestHost;
  let session: string;
  beforeAll(async () => {
    host = await startHost({ databaseUrl, parts: { identify: tokenUser({ secret: SECRET }) } });
    session = (await ask(host, `Bearer ${await bySecret()}`)).body.session.session_id as string;
    const message = { id: newId('msg'), text: 'hello' };
    const authorization = `Bearer ${await bySecret()}`;
    // Temporal is away, so the message stays queued and its stream stays open.
    await host.as('ada').post(`/api/sessions/${session}/messages`, message, { authorization });
  });

  const chat = () => ({
    method: 'POST',
    body: JSON.stringify({
      id: session,
      messages: [{ id: newId('msg'), role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
    }),
  });
  const problem = expect.objectContaining({ code: 'Unauthorized', status: 401 });
  const chunk = { type: 'error', errorText: expect.stringContaining('expired') };
  it.each([
    ['an answer', '/api/chat', chat, chunk],
    ['an answer that is resumed', '/api/chat/:id/stream', () => ({}), chunk],
    ['the events of a session', '/api/sessions/:id/events', () => ({}), problem],
    ['a rendezvous', '/api/rendezvous', () => ({}), problem],
  ])('H3 ends the stream of %s within 5 s, with `expired` as its last event', async (_what, path, init, data) => {
    const exp = NOW() + 2;
    const read = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` };
      return host.as('ada').fetch(path.replace(':id', session), { ...init(), headers });
    };
    const events = await Array.fromAsync(eventsOf(await read(await bySecret({ exp }))));
    expect(Date.now() / 1_000 - exp).toBeGreaterThanOrEqual(0);
    expect(Date.now() / 1_000 - exp).toBeLessThan(5);
    expect(events.length).toBeGreaterThan(1);
    expect(events.at(-1)).toEqual({ event: 'expired', data });
    expect(events.filter(({ event }) => event === 'expired')).toHaveLength(1);
    const again = await read(await bySecret());
    expect(again.status).toBe(200);
    await again.body!.cancel();
  });

  it('H3 is an error of the chat for the AI SDK, not the end of an answer', async () => {
    const headers = { authorization: `Bearer ${await bySecret({ exp: NOW() + 1 })}` };
    const transport = new DefaultChatTransport({ api: `${host.url}/api/chat`, headers });
    const stream = await transport.reconnectToStream({ chatId: session });
    const failed = (async () => {
      for await (const _ of readUIMessageStream({ stream: stream!, terminateOnError: true }));
    })();
    await expect(failed).rejects.toThrow('the token has expired');
  });

  it('H3 may be missing its expiry where the operator allows that', async () => {
    const identify = tokenUser({ secret: SECRET, allowNoExp: true });
    const authorization = `Bearer ${await bySecret({ exp: undefined })}`;
    expect(await identify(new Request('http://localhost/', { headers: { authorization } }))).toEqual({ user: 'ada' });
  });
});

/** The token with another subject and the signature it had. */
function changed(token: string): string {
  const [header, , signature] = token.split('.');
  return [header, Buffer.from(JSON.stringify(claimsOf({ sub: 'eve' }))).toString('base64url'), signature].join('.');
}

/** Sends two headers, as `fetch` cannot. */
function statusOfTwo(host: TestHost, tokens: string[]): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const headers = ['Host', '127.0.0.1', ...tokens.flatMap((token) => ['Authorization', `Bearer ${token}`])];
  const request = httpRequest(`${host.url}/api/sessions`, { headers }, (response) => {
    response.resume();
    resolve(response.statusCode);
  });
  request.on('error', reject);
  request.end();
  return promise;
}

describe('a host whose tokens are signed with keys of their issuer', () => {
  let keys: KeyServer;
  let host: TestHost;
  const hostOf = (jwksUrl: string) => {
    const identify = tokenUser({ jwksUrl, issuer: ISSUER, audience: 'perdure' });
    return startHost({ databaseUrl, parts: { identify } });
  };
  beforeEach(async () => {
    keys = await startKeyServer();
    keys.publish(first);
    host = await hostOf(keys.url);
  });
  afterEach(() => void vi.useRealTimers());

  it('H3 fetches them once, from where it was told', async () => {
    for (let at = 0; at < 3; at++) {
      expect(await ask(host, `Bearer ${await byKey(first)}`)).toMatchObject({ status: 201, user: 'ada' });
    }
    expect(keys.asked).toEqual(['/jwks.json']);
  });

  it.each(['ES256', 'PS256', 'EdDSA'])('H3 takes keys of %s', async (alg) => {
    const key = await issuerKey('second', alg);
    keys.publish(first, key);
    expect(await ask(host, `Bearer ${await byKey(key)}`)).toMatchObject({ status: 201, user: 'ada' });
  });

  it('H3 takes no public key for a secret, and no key from where a token says', async () => {
    const evil = await startKeyServer();
    const forger = await issuerKey('first');
    evil.publish(forger);
    const spki = await exportSPKI(first.publicKey);
    const tokens = [
      handMade({ alg: 'HS256', kid: 'first' }, claimsOf(), hmac(spki)),
      handMade({ alg: 'HS256', kid: 'first' }, claimsOf(), hmac(spki.trim())),
      handMade({ alg: 'none', kid: 'first' }, claimsOf(), () => ''),
      await byKey(forger),
      await byKey(forger, {}, { jku: evil.url, x5u: evil.url }),
      await bySecret(),
    ];
    for (const token of tokens) {
      const answer = await ask(host, `Bearer ${token}`);
      expectRefused(answer);
      expectUnsaid(host, token, answer);
    }
    expect(evil.asked).toEqual([]);
  });

  it('H3 judges the claims', async () => {
    for (const claims of [{ exp: NOW() - 30 }, { iss: 'https://evil.example' }, { aud: 'other' }, { sub: undefined }]) {
      expectRefused(await ask(host, `Bearer ${await byKey(first, claims)}`));
    }
  });

  it('H3 fetches them again for a key that it does not know, but not for every one that is made up', async () => {
    expect(await ask(host, `Bearer ${await byKey(first)}`)).toMatchObject({ status: 201 });
    const second = await issuerKey('second');
    keys.publish(first, second);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 11_000 });
    expect(await ask(host, `Bearer ${await byKey(second)}`)).toMatchObject({ status: 201, user: 'ada' });
    expect(keys.asked).toHaveLength(2);
    for (const kid of ['third', 'fourth', 'fifth']) {
      expectRefused(await ask(host, `Bearer ${await byKey({ ...second, kid })}`));
    }
    expect(keys.asked).toHaveLength(2);
    // What the issuer has taken back is nobody's key once they are fetched anew.
    keys.publish(second);
    vi.setSystemTime(Date.now() + 11_000);
    expectRefused(await ask(host, `Bearer ${await byKey({ ...second, kid: 'sixth' })}`));
    expectRefused(await ask(host, `Bearer ${await byKey(first)}`));
  });

  it('H3 Q3 says 503 and not 401 while they cannot be had, and goes on when they can', async () => {
    const evil = await startKeyServer();
    const token = await byKey(first);
    const answers: Parameters<KeyServer['answer']>[0][] = [
      (_request, response) => response.writeHead(500).end('oops'),
      (_request, response) => response.end('no JSON'),
      (_request, response) => response.end('{"keys":5}'),
      (_request, response) => response.writeHead(302, { location: evil.url }).end(),
      (request) => request.socket.destroy(),
    ];
    for (const each of answers) {
      keys.answer(each);
      const answer = await ask(host, `Bearer ${token}`);
      expect(answer).toMatchObject({ status: 503, body: { code: 'Unavailable' } });
      expectUnsaid(host, token, answer);
    }
    expect(evil.asked).toEqual([]);
    keys.publish(first);
    expect(await ask(host, `Bearer ${token}`)).toMatchObject({ status: 201, user: 'ada' });
    const nowhere = await hostOf(`http://127.0.0.1:${await freePort()}/jwks.json`);
    expect(await ask(nowhere, `Bearer ${token}`)).toMatchObject({ status: 503, body: { code: 'Unavailable' } });
  });

  it('H3 waits two seconds for them and no longer', async () => {
    keys.answer(() => {});
    const from = performance.now();
    expect(await ask(host, `Bearer ${await byKey(first)}`)).toMatchObject({ status: 503 });
    expect(performance.now() - from).toBeLessThan(4_000);
    expect(keys.asked).toHaveLength(1);
  });
});
