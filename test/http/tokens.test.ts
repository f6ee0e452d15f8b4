import { createHmac } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { DefaultChatTransport, readUIMessageStream } from 'ai';
import { exportSPKI, SignJWT } from 'jose';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { tokenUser } from '../../host/auth/token-user.ts';
import { type Answer, eventsOf, startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { type IssuerKey, issuerKey, type KeyServer, startKeyServer } from '../../tools/test-kit/key-server.ts';
import { expectLeastOfThree } from '../../tools/test-kit/least-of-three.ts';
import { freePort, freshDatabase } from '../../tools/test-kit/servers.ts';

// Hosts that require tokens, over HTTP; a server of the issuer provides the keys.

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

/** A token that no library would create. */
function handMade(header: object, claims: object, sign: (signed: string) => string): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const signed = `${encode(header)}.${encode(claims)}`;
  return `${signed}.${sign(signed)}`;
}

const hmac = (key: string) => (signed: string) => createHmac('sha256', key).update(signed).digest('base64url');

/** Opens a session with this Authorization header; returns its user. */
async function ask(host: TestHost, authorization?: string): Promise<Answer & { user?: string }> {
  const answer = await host.as('mallory').post('/api/sessions', {}, authorization ? { authorization } : {});
  return { ...answer, user: answer.body.session?.user_id };
}

/** RFC 6750, 3: the challenge names the error of an invalid token; without a token it is the scheme only. */
function expectRefused(answer: Answer, challenge = 'Bearer error="invalid_token"'): void {
  expect(answer).toMatchObject({ status: 401, body: { code: 'Unauthorized' } });
  expect(answer.headers.get('www-authenticate')).toBe(challenge);
}

/** Expects no part of the token in logs and responses of the host. */
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

  it('H3 uses the subject as user, and ignores other identification in the request', async () => {
    expect(await ask(host, `Bearer ${await bySecret()}`)).toMatchObject({ status: 201, user: 'ada' });
  });

  it('K3 the claim perdure_admin, and nothing else, lets a caller change app: state', async () => {
    const change = async (claims: object) => {
      const caller = host.as('ada');
      const headers = { authorization: `Bearer ${await bySecret(claims)}` };
      const { body } = await caller.post('/api/sessions', {}, headers);
      const path = `/api/sessions/${String(body.session.session_id)}/state`;
      return (await caller.post(path, { stateDelta: { 'app:motd': 'hello' } }, headers)).status;
    };
    expect(await change({ perdure_admin: true })).toBe(200);
    const others = [{ perdure_admin: 'true' }, { perdure_admin: 1 }, { admin: true }, { perdure_reads_all: true }];
    for (const claims of [{}, ...others]) {
      expect(await change(claims)).toBe(403);
    }
  });

  it.each(['bearer', 'BEARER'])('H3 accepts the scheme as %s', async (scheme) => {
    expect(await ask(host, `${scheme} ${await bySecret()}`)).toMatchObject({ status: 201, user: 'ada' });
  });

  it.each([
    ['of HS512, with a secret that is as long', () => bySecret({}, { alg: 'HS512' })],
    ['of one of several audiences', () => bySecret({ aud: ['other', 'perdure'] })],
    ['that expired two seconds ago', () => bySecret({ exp: NOW() - 2 })],
    ['that becomes valid in two seconds', () => bySecret({ nbf: NOW() + 2 })],
    ['with the longest subject', () => bySecret({ sub: 's'.repeat(128) })],
  ])('H3 accepts a token %s', async (_what, make) => {
    expect(await ask(host, `Bearer ${await make()}`)).toMatchObject({ status: 201 });
  });

  it.each([
    ['of another secret', () => bySecret({}, { key: ANOTHER_SECRET })],
    ['that has expired', () => bySecret({ exp: NOW() - 30 })],
    ['that is not yet valid', () => bySecret({ nbf: NOW() + 30 })],
    ['of another issuer', () => bySecret({ iss: 'https://evil.example' })],
    ['without an issuer', () => bySecret({ iss: undefined })],
    ['for another audience', () => bySecret({ aud: 'other' })],
    ['without an audience', () => bySecret({ aud: undefined })],
    ['that never expires', () => bySecret({ exp: undefined })],
    ['without a subject', () => bySecret({ sub: undefined })],
    ['with an empty subject', () => bySecret({ sub: '' })],
    ['with a subject that is too long', () => bySecret({ sub: 's'.repeat(129) })],
    ['with a subject with control characters', () => bySecret({ sub: 'ada\n' })],
    ['with a number as subject', () => handMade({ alg: 'HS256' }, claimsOf({ sub: 5 }), hmac(SECRET))],
    ['with algorithm none', () => handMade({ alg: 'none' }, claimsOf(), () => '')],
    ['with algorithm none and a signature', () => handMade({ alg: 'nOnE' }, claimsOf(), hmac(SECRET))],
    ['signed with an asymmetric key', () => byKey(first)],
    ['whose claims were changed', async () => changed(await bySecret())],
    ['that is not a token', () => 'gibberish'],
  ])('H3 refuses a token %s, and never quotes it', async (_what, make) => {
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

  it('H3 refuses two Authorization headers in any order, and two tokens in one header', async () => {
    const [good, bad] = [await bySecret(), await bySecret({ sub: 'eve' }, { key: ANOTHER_SECRET })];
    for (const tokens of [
      [good, bad],
      [bad, good],
    ]) {
      expectRefused(await ask(host, `Bearer ${tokens[0]}, Bearer ${tokens[1]}`), 'Bearer');
      expect(await statusOfTwo(host, tokens)).toBe(401);
    }
  });

  it('H3 shows a user no data of another', async () => {
    const [ada, eve] = [`Bearer ${await bySecret()}`, `Bearer ${await bySecret({ sub: 'eve' })}`];
    const id = (await ask(host, ada)).body.session.session_id as string;
    const read = async (authorization: string) =>
      (await host.as('ada').fetch(`/api/sessions/${id}`, { headers: { authorization } })).status;
    expect([await read(ada), await read(eve)]).toEqual([200, 404]);
  });

  it('H3 cannot be created with a short secret, with two verification methods, or without one', () => {
    expect(() => tokenUser({ secret: 's'.repeat(31) })).toThrow('at least 32 bytes');
    expect(() => tokenUser({ secret: SECRET, jwksUrl: 'https://id.example/jwks' })).toThrow('either');
    expect(() => tokenUser({})).toThrow('either');
  });

  it('H3 accepts no HS512 with a secret that is shorter than its hash', async () => {
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
    // Temporal is down, so the message stays queued and its stream stays open.
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
    const read = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` };
      return host.as('ada').fetch(path.replace(':id', session), { ...init(), headers });
    };
    await expectLeastOfThree('the end after the expiry', 5_000, async () => {
      const exp = NOW() + 2;
      const events = await Array.fromAsync(eventsOf(await read(await bySecret({ exp }))));
      const late = Date.now() - exp * 1_000;
      expect(late).toBeGreaterThanOrEqual(0);
      expect(events.length).toBeGreaterThan(1);
      expect(events.at(-1)).toEqual({ event: 'expired', data });
      expect(events.filter(({ event }) => event === 'expired')).toHaveLength(1);
      return late;
    });
    const again = await read(await bySecret());
    expect(again.status).toBe(200);
    await again.body!.cancel();
  });

  it('H3 is reported by the AI SDK as an error of the chat, not as the end of an answer', async () => {
    const headers = { authorization: `Bearer ${await bySecret({ exp: NOW() + 1 })}` };
    const transport = new DefaultChatTransport({ api: `${host.url}/api/chat`, headers });
    const stream = await transport.reconnectToStream({ chatId: session });
    const failed = (async () => {
      for await (const _ of readUIMessageStream({ stream: stream!, terminateOnError: true }));
    })();
    await expect(failed).rejects.toThrow('the token has expired');
  });

  it('H3 may have no expiry if the operator allows that', async () => {
    const identify = tokenUser({ secret: SECRET, allowNoExp: true });
    const authorization = `Bearer ${await bySecret({ exp: undefined })}`;
    expect(await identify(new Request('http://localhost/', { headers: { authorization } }))).toEqual({ user: 'ada' });
  });
});

/** The token with another subject and the old signature. */
function changed(token: string): string {
  const [header, , signature] = token.split('.');
  return [header, Buffer.from(JSON.stringify(claimsOf({ sub: 'eve' }))).toString('base64url'), signature].join('.');
}

/** Sends two Authorization headers, which `fetch` cannot. */
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

  it('H3 fetches them once, from the configured URL', async () => {
    for (let at = 0; at < 3; at++) {
      expect(await ask(host, `Bearer ${await byKey(first)}`)).toMatchObject({ status: 201, user: 'ada' });
    }
    expect(keys.asked).toEqual(['/jwks.json']);
  });

  it.each(['ES256', 'PS256', 'EdDSA'])('H3 accepts keys of type %s', async (alg) => {
    const key = await issuerKey('second', alg);
    keys.publish(first, key);
    expect(await ask(host, `Bearer ${await byKey(key)}`)).toMatchObject({ status: 201, user: 'ada' });
  });

  it('H3 does not accept a public key as a secret, nor a key from a URL in the token', async () => {
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

  it('H3 checks the claims', async () => {
    for (const claims of [{ exp: NOW() - 30 }, { iss: 'https://evil.example' }, { aud: 'other' }, { sub: undefined }]) {
      expectRefused(await ask(host, `Bearer ${await byKey(first, claims)}`));
    }
  });

  it('H3 fetches them again for an unknown key, but not for every invented one', async () => {
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
    // A key that the issuer has removed is refused after the next fetch.
    keys.publish(second);
    vi.setSystemTime(Date.now() + 11_000);
    expectRefused(await ask(host, `Bearer ${await byKey({ ...second, kid: 'sixth' })}`));
    expectRefused(await ask(host, `Bearer ${await byKey(first)}`));
  });

  it('H3 Q3 responds 503, not 401, while they cannot be fetched, and recovers', async () => {
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

  it('H3 waits at most two seconds for them', async () => {
    keys.answer(() => {});
    await expectLeastOfThree('a request whose keys cannot be fetched', 3_000, async () => {
      const unaware = await hostOf(keys.url);
      const before = keys.asked.length;
      const from = performance.now();
      expect(await ask(unaware, `Bearer ${await byKey(first)}`)).toMatchObject({ status: 503 });
      expect(keys.asked).toHaveLength(before + 1);
      return performance.now() - from;
    });
  });
});
