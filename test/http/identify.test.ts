import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { cookieKey } from '../../host/cookie.ts';
import { isLoopback, loopbackUser } from '../../host/identify.ts';

function request(headers: Record<string, string> = {}, url = 'http://127.0.0.1:8787/api/sessions'): Request {
  return new Request(url, { headers: { host: new URL(url).host, ...headers } });
}

describe('the user of a host that only this machine can reach', () => {
  const identify = loopbackUser(Buffer.alloc(32, 1));

  it('H3 is the header x-perdure-user', async () => {
    expect(await identify(request({ 'x-perdure-user': 'ada lovelace' }))).toEqual({ user: 'ada lovelace' });
  });

  it.each(['', 'a'.repeat(129), 'caf\u00e9'])('H3 is refused as %j', async (user) => {
    await expect(identify(request({ 'x-perdure-user': user }))).rejects.toMatchObject({ code: 'Unauthorized' });
  });

  it('H3 is somebody new without it, whom the cookie names from then on', async () => {
    const first = await identify(request());
    expect(first.setCookie).toMatch(/; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Lax$/);
    const cookie = `other=1; ${first.setCookie!.split(';')[0]}`;
    expect(await identify(request({ cookie }))).toEqual({ user: first.user });
    expect((await identify(request())).user).not.toBe(first.user);
  });

  it('H3 is not whom a cookie names that we have not signed', async () => {
    const { user, setCookie } = await identify(request());
    const [name, value] = setCookie!.split(';')[0]!.split('=') as [string, string];
    const forged = [
      `${name}=eve${value.slice(value.indexOf('.'))}`,
      `${name}=${user}`,
      `${name}=${user}.`,
      `${name}=.x`,
    ];
    for (const cookie of forged) expect((await identify(request({ cookie }))).setCookie).toBeDefined();
  });

  it.each([
    ['a name that was made to resolve here', {}, 'http://rebound.example:8787/api/sessions'],
    ['a name that begins like ours', {}, 'http://localhost.example/api/sessions'],
    ['a page of another site', { origin: 'https://evil.example' }, undefined],
    ['a page of another port', { origin: 'http://127.0.0.1:9999' }, undefined],
    ['a page without an origin', { origin: 'null' }, undefined],
  ])('Q3 is nobody for %s', async (_what, headers, url) => {
    await expect(identify(request(headers, url))).rejects.toMatchObject({ code: 'Forbidden' });
  });

  it.each(['http://localhost:8787/', 'http://[::1]:8787/', 'http://127.0.0.1/'])('H3 is anybody on %s', async (url) => {
    const origin = new URL(url).origin;
    expect(await identify(request({ 'x-perdure-user': 'ada', origin }, url))).toEqual({ user: 'ada' });
  });

  it('H3 keeps the key of its cookies for itself, over restarts', async () => {
    const dir = await mkdtemp(path.join(tmpdir(), 'perdure-key-'));
    try {
      const [one, two] = await Promise.all([cookieKey(path.join(dir, 'new')), cookieKey(path.join(dir, 'new'))]);
      expect(one).toEqual(two);
      expect(one).toHaveLength(32);
      expect((await stat(path.join(dir, 'new', 'cookie.key'))).mode & 0o077).toBe(0);
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});

it('H3 loopback addresses are told from others', () => {
  const loopback = ['127.0.0.1', '127.1.2.3', 'localhost', '::1'];
  const others = ['0.0.0.0', '::', '10.0.0.1', 'example.com', '127.0.0.1.example.com'];
  expect([...loopback, ...others].filter(isLoopback)).toEqual(loopback);
});
