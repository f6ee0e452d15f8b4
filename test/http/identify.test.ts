import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { cookieKey } from '../../host/auth/cookie-key.ts';
import { isLoopback, loopbackUser } from '../../host/auth/loopback-user.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

function request(headers: Record<string, string> = {}, url = 'http://127.0.0.1:8787/api/sessions'): Request {
  return new Request(url, { headers: { host: new URL(url).host, ...headers } });
}

describe('the user of a loopback host', () => {
  const identify = loopbackUser(Buffer.alloc(32, 1));

  it('H3 is the header x-perdure-user', async () => {
    expect(await identify(request({ 'x-perdure-user': 'ada lovelace' }))).toEqual({ user: 'ada lovelace' });
  });

  it.each(['', 'a'.repeat(129), 'caf\u00e9'])('H3 is refused as %j', async (user) => {
    await expect(identify(request({ 'x-perdure-user': user }))).rejects.toMatchObject({ code: 'Unauthorized' });
  });

  it('H3 is a new one without the header; the cookie identifies that user from then on', async () => {
    const first = await identify(request());
    expect(first.setCookie).toMatch(/; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Lax$/);
    const cookie = `other=1; ${first.setCookie!.split(';')[0]}`;
    expect(await identify(request({ cookie }))).toEqual({ user: first.user });
    expect((await identify(request())).user).not.toBe(first.user);
  });

  it('H3 is the configured one for all who name none, whatever their cookie says', async () => {
    const cookie = (await identify(request())).setCookie!.split(';')[0]!;
    const alone = loopbackUser(Buffer.alloc(32, 1), 'ada');
    for (const headers of [{}, { cookie }]) expect(await alone(request(headers))).toEqual({ user: 'ada' });
    expect(await alone(request({ 'x-perdure-user': 'eve' }))).toEqual({ user: 'eve' });
  });

  it('H3 is not taken from a cookie with a wrong signature', async () => {
    const { user, setCookie } = await identify(request());
    const [name, value] = setCookie!.split(';')[0]!.split('=') as [string, string];
    // Swaps the user and keeps the signature.
    const forged = [
      `${name}=${encodeURIComponent(decodeURIComponent(value).replace(user, 'eve'))}`,
      `${name}=eve${value.slice(value.indexOf('.'))}`,
      `${name}=${user}`,
      `${name}=${user}.`,
      `${name}=.x`,
      `${name}=${encodeURIComponent('user:')}eve${value.slice(value.indexOf('.'))}`,
      `${name}=${value.slice(0, -4)}AA%3D`,
    ];
    for (const cookie of forged) expect((await identify(request({ cookie }))).setCookie).toBeDefined();
  });

  it.each([
    ['a foreign host name that resolves to this machine', {}, 'http://rebound.example:8787/api/sessions'],
    ['a host name that begins like ours', {}, 'http://localhost.example/api/sessions'],
    ['a page of another site', { origin: 'https://evil.example' }, undefined],
    ['a page of another port', { origin: 'http://127.0.0.1:9999' }, undefined],
    ['a page without an origin', { origin: 'null' }, undefined],
  ])('Q3 is refused for %s', async (_what, headers, url) => {
    await expect(identify(request(headers, url))).rejects.toMatchObject({ code: 'Forbidden' });
  });

  it.each(['http://localhost:8787/', 'http://[::1]:8787/', 'http://127.0.0.1/'])(
    'H3 is accepted on %s',
    async (url) => {
      const origin = new URL(url).origin;
      expect(await identify(request({ 'x-perdure-user': 'ada', origin }, url))).toEqual({ user: 'ada' });
    },
  );
});

describe('the key that signs cookies', () => {
  const dir = scratchDir();

  it('H3 is the same for hosts that start at once, survives restarts, and is readable by its owner only', async () => {
    const fresh = path.join(dir, 'new');
    const keys = await Promise.all(Array.from({ length: 20 }, () => cookieKey(fresh)));
    expect(new Set(keys.map((key) => key.toString('hex'))).size).toBe(1);
    expect(await cookieKey(fresh)).toEqual(keys[0]);
    expect(keys[0]).toHaveLength(32);
    expect((await stat(path.join(fresh, 'cookie.key'))).mode & 0o077).toBe(0);
    expect(await readdir(fresh)).toEqual(['cookie.key']);
  });

  it.each([
    ['nothing', ''],
    ['half a key', 'ab'.repeat(16)],
    ['something longer', 'ab'.repeat(33)],
    ['no digits', 'zz'.repeat(32)],
  ])('Q3 is refused if its file contains %s', async (_what, text) => {
    await writeFile(path.join(dir, 'cookie.key'), text);
    await expect(cookieKey(dir)).rejects.toThrow(/cookie\.key: expected a key of 32 bytes.*delete the file/);
    expect(await readFile(path.join(dir, 'cookie.key'), 'utf8')).toBe(text);
  });
});

it('H3 loopback addresses are recognized', () => {
  const loopback = ['127.0.0.1', '127.1.2.3', 'localhost', '::1'];
  const others = ['0.0.0.0', '::', '10.0.0.1', 'example.com', '127.0.0.1.example.com'];
  expect([...loopback, ...others].filter(isLoopback)).toEqual(loopback);
});
