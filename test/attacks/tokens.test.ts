// Forged tokens, on every route: requests without a valid token read nothing and change nothing.
import { createHmac } from 'node:crypto';
import { exportSPKI, SignJWT } from 'jose';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tokenUser } from '../../host/auth/token-user.ts';
import { userCookie } from '../../host/auth/user-cookie.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { type IssuerKey, issuerKey, startKeyServer } from '../../tools/test-kit/key-server.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { requestTo, type Route, routesOf } from './routes.ts';
import { allRows } from './rows.ts';

const SECRET = 'a secret of at least thirty-two bytes';
const CLAIMS = { iss: 'https://id.example', aud: 'perdure' };
const AN_HOUR = 3_600;
/** The routes without authentication. */
const PUBLIC = [
  'GET /api/openapi.json',
  'GET /docs',
  'GET /docs/{file}',
  'GET /healthz',
  'GET /metrics',
  'GET /openapi.json',
  'GET /preview/{token}/{file}',
  'GET /readyz',
];
const ANY = {
  id: 'ses_0123456789abXXXXXXXXXXXXXX',
  message_id: 'm1',
  tool_call_id: 'call_1',
  digest: 'd',
  attachment_id: 'att_x',
};

let db: pg.Pool;
let bySecret: TestHost;
let byKeys: TestHost;
let key: IssuerKey;
let routes: Route[];
let publicKey: string;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  db = patientPool(databaseUrl);
  key = await issuerKey('first');
  publicKey = await exportSPKI(key.publicKey);
  const issuer = await startKeyServer();
  issuer.publish(key);
  const expected = { issuer: CLAIMS.iss, audience: CLAIMS.aud };
  bySecret = await startHost({ databaseUrl, parts: { identify: tokenUser({ secret: SECRET, ...expected }) } });
  byKeys = await startHost({ databaseUrl, parts: { identify: tokenUser({ jwksUrl: issuer.url, ...expected }) } });
  routes = (await routesOf(bySecret.url)).filter((route) => !route.open);
});
afterAll(() => db.end());

const now = () => Math.floor(Date.now() / 1000);
const claims = (more: object = {}) => ({ ...CLAIMS, sub: 'ada', exp: now() + AN_HOUR, ...more });
const bytes = (text: string) => new TextEncoder().encode(text);
const signed = (more: object = {}, secret = SECRET) =>
  new SignJWT(claims(more)).setProtectedHeader({ alg: 'HS256' }).sign(bytes(secret));
const byIssuer = (more: object = {}) =>
  new SignJWT(claims(more)).setProtectedHeader({ alg: key.alg, kid: key.kid }).sign(key.privateKey);
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token that no library would create. */
function handMade(header: object, sign: (text: string) => string, more: object = {}): string {
  const text = `${encode(header)}.${encode(claims(more))}`;
  return `${text}.${sign(text)}`;
}
const hmac = (secret: string) => (text: string) => createHmac('sha256', secret).update(text).digest('base64url');

/** A token whose payload differs from the signed one. */
function tampered(token: string): string {
  return token
    .split('.')
    .with(1, encode(claims({ sub: 'root' })))
    .join('.');
}

/** Credentials that must not be accepted. */
async function forgeries(): Promise<Record<string, Record<string, string>>> {
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  const valid = await signed();
  return {
    'no token': {},
    'a user header': { 'x-perdure-user': 'ada' },
    'the cookie of a loopback host': { cookie: (await userCookie('ada', Buffer.alloc(32, 7))).split(';')[0]! },
    'a token in a cookie': { cookie: `authorization=${valid}; access_token=${valid}` },
    'another scheme': { authorization: `Basic ${Buffer.from(`ada:${valid}`).toString('base64')}` },
    'no algorithm': bearer(handMade({ alg: 'none' }, () => '')),
    'no algorithm, in capitals': bearer(handMade({ alg: 'NONE' }, () => '')),
    'no signature': bearer(`${valid.split('.').slice(0, 2).join('.')}.`),
    'another secret': bearer(await signed({}, 'another secret of at least thirty-two bytes')),
    'an empty secret': bearer(handMade({ alg: 'HS256' }, hmac(''))),
    'an expired token': bearer(await signed({ exp: now() - 60 })),
    'another audience': bearer(await signed({ aud: 'elsewhere' })),
    'another issuer': bearer(await signed({ iss: 'https://evil.example' })),
    'another payload': bearer(tampered(valid)),
    'a key of its own': bearer(handMade({ alg: 'HS256', jwk: { kty: 'oct', k: 'AAAA' } }, hmac('AAAA'))),
    'a file as key': bearer(handMade({ alg: 'HS256', kid: '/dev/null' }, hmac(''))),
    'an unknown critical extension': bearer(handMade({ alg: 'HS256', crit: ['b64'], b64: false }, hmac(SECRET))),
  };
}

/** Requests every route; returns those that did not refuse. */
async function taken(host: TestHost, headers: Record<string, string>): Promise<string[]> {
  const asked = routes.map(async (route) => {
    const { path, init } = requestTo(route, { params: ANY });
    const response = await fetch(host.url + path, { ...init, headers: { ...init.headers, ...headers } });
    await response.body?.cancel();
    const isRefused =
      response.status === 401 && response.headers.get('www-authenticate')?.startsWith('Bearer') === true;
    return isRefused ? [] : [`${route.name}: ${response.status}`];
  });
  return (await Promise.all(asked)).flat();
}

describe('an invalid token', () => {
  it('Q3 every route except the listed ones requires authentication', async () => {
    const open = (await routesOf(bySecret.url)).filter((route) => route.open).map((route) => route.name);
    expect(open.toSorted()).toEqual(PUBLIC);
    expect(routes.length).toBeGreaterThan(25);
    expect(routes.filter((route) => route.streams).length).toBeGreaterThanOrEqual(4);
  });

  it('Q3 is 401 with WWW-Authenticate on every route of a host with a secret, and nothing is written', async () => {
    const before = await allRows(db);
    for (const [what, headers] of Object.entries(await forgeries())) {
      expect(await taken(bySecret, headers), what).toEqual([]);
    }
    expect(await allRows(db)).toEqual(before);
    // A valid token is not refused on any route, so the 401 was caused by the token.
    const authorization = `Bearer ${await signed()}`;
    const passed = await Promise.all(
      routes.map(async (route) => {
        const { path, init } = requestTo(route, { params: ANY });
        const response = await fetch(bySecret.url + path, { ...init, headers: { ...init.headers, authorization } });
        await response.body?.cancel();
        return response.status;
      }),
    );
    expect(passed).not.toContain(401);
  });

  it('Q3 is 401 on every route of a host with a JWKS, also if it is signed with the public key as a secret', async () => {
    const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
    const forged = {
      'no token': {},
      'signed with the public key as a secret': bearer(handMade({ alg: 'HS256', kid: key.kid }, hmac(publicKey))),
      'signed with a secret': bearer(await signed()),
      'an unknown key': bearer(handMade({ alg: 'RS256', kid: 'unknown' }, () => 'AAAA')),
      'a signature of another kind': bearer(handMade({ alg: 'RS256', kid: key.kid }, hmac(SECRET))),
      'no algorithm': bearer(handMade({ alg: 'none', kid: key.kid }, () => '')),
      'keys of another issuer': bearer(
        handMade(
          { alg: 'RS256', kid: key.kid, jku: 'http://127.0.0.1:1/keys', x5u: 'http://127.0.0.1:1/' },
          () => 'AA',
        ),
      ),
      'another payload': bearer(tampered(await byIssuer())),
      'an expired token': bearer(await byIssuer({ exp: now() - 60 })),
      'another audience': bearer(await byIssuer({ aud: 'elsewhere' })),
    };
    for (const [what, headers] of Object.entries(forged)) expect(await taken(byKeys, headers), what).toEqual([]);
    const list = routes.find((route) => route.operationId === 'listSessions');
    const { path } = requestTo(list!);
    expect((await fetch(byKeys.url + path, { headers: bearer(await byIssuer()) })).status).toBe(200);
  });

  it('Q3 in a URL is not accepted, because logs and other sites could see it', async () => {
    const valid = await signed();
    for (const name of ['access_token', 'token', 'authorization', 'jwt']) {
      expect((await fetch(`${bySecret.url}/api/sessions?${name}=${valid}`)).status).toBe(401);
    }
  });
});
