import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PageHandler } from '../../host/context.ts';
import { staticPage } from '../../host/http/static-page.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

const OF_INITIATIVES = ['/i', '/i/ini_1'];
const LONG = 'go();\n'.repeat(1_000);
const dir = scratchDir();
let page: PageHandler;
beforeAll(async () => {
  await mkdir(path.join(dir, 'dist', 'assets'), { recursive: true });
  await writeFile(path.join(dir, 'secret.html'), 'secret');
  await writeFile(path.join(dir, 'dist', '.made-from'), 'digest');
  await writeFile(path.join(dir, 'dist', 'index.html'), '<!doctype html>');
  await writeFile(path.join(dir, 'dist', 'assets', 'index-abc.js'), 'go()');
  await writeFile(path.join(dir, 'dist', 'assets', 'long-abc.js'), LONG);
  await mkdir(path.join(dir, 'dist', 'console'));
  await writeFile(path.join(dir, 'dist', 'console', 'index.html'), 'the console');
  await mkdir(path.join(dir, 'dist', 'diagram'));
  await writeFile(path.join(dir, 'dist', 'diagram', 'index.html'), 'draws');
  page = await staticPage(path.join(dir, 'dist'));
});

const get = async (url: string, headers: Record<string, string> = {}) =>
  page(new Request(`http://localhost${url}`, { headers }));

describe('the chat page is served', () => {
  it('H1 with its content type, and revalidated on every load', async () => {
    const response = await get('/?from=somewhere');
    expect(await response?.text()).toBe('<!doctype html>');
    expect(Object.fromEntries(response?.headers ?? [])).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringContaining("default-src 'none'; script-src 'self'; worker-src 'self'"),
    });
    const etag = response?.headers.get('etag') ?? '';
    // A proxy that compresses makes the tag weak.
    for (const known of [etag, `"other", ${etag}`, `W/${etag}`]) {
      const again = await get('/', { 'if-none-match': known });
      expect([known, again?.status, await again?.text()]).toEqual([known, 304, '']);
      expect(again?.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'");
    }
  });

  it.each(OF_INITIATIVES)('H12 at the addresses of initiatives: %s', async (url) => {
    const response = await get(url);
    expect(await response?.text()).toBe('<!doctype html>');
    expect(response?.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'");
  });

  it('H8 also for a link to a session, but below no other path', async () => {
    expect(await (await get('/s/ses_1'))?.text()).toBe('<!doctype html>');
    for (const url of ['/s', '/s/', '/s/ses_1/more', '/t/ses_1'])
      expect([url, await get(url)]).toEqual([url, undefined]);
  });

  it('Q3 with the frame that draws diagrams, which has no origin and can load nothing but our scripts', async () => {
    const frame = await get('/diagram');
    expect(await frame?.text()).toBe('draws');
    const policy = frame?.headers.get('content-security-policy') ?? '';
    expect(policy).toBe(
      "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    );
    expect(frame?.headers.get('x-frame-options')).toBe(null);
    // Without an origin it asks for its scripts as another site would.
    expect((await get('/assets/index-abc.js'))?.headers.get('access-control-allow-origin')).toBe('*');
    expect((await get('/'))?.headers.get('access-control-allow-origin')).toBe(null);
  });

  it('H1 with the console at an address of its own', async () => {
    const response = await get('/console?session=ses_1');
    expect(await response?.text()).toBe('the console');
    expect(response?.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'");
  });

  it('H1 with immutable assets, whose names contain a hash', async () => {
    const response = await get('/assets/index-abc.js');
    expect(response?.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(response?.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  });

  it('H8 compressed for clients that take it, and revalidated by the same tag', async () => {
    const response = await get('/assets/long-abc.js', { 'accept-encoding': 'gzip, br' });
    expect(response?.headers.get('content-encoding')).toBe('gzip');
    expect(response?.headers.get('vary')).toBe('Accept-Encoding');
    const body = Buffer.from(await response!.arrayBuffer());
    expect(body.length).toBeLessThan(LONG.length / 10);
    expect(gunzipSync(body).toString()).toBe(LONG);
    const etag = response?.headers.get('etag') ?? '';
    const unchanged = await get('/assets/long-abc.js', { 'accept-encoding': 'gzip', 'if-none-match': etag });
    expect([unchanged?.status, unchanged?.headers.get('vary')]).toEqual([304, 'Accept-Encoding']);
    const plain = await get('/assets/long-abc.js');
    expect([await plain?.text(), plain?.headers.get('vary')]).toEqual([LONG, 'Accept-Encoding']);
    expect((await get('/', { 'accept-encoding': 'gzip' }))?.headers.get('content-encoding')).toBeNull();
  });

  it.each([
    '/secret.html',
    '/../secret.html',
    '/%2e%2e/secret.html',
    '/assets/..%2f..%2fsecret.html',
    '/.made-from',
    '/i/',
    '/i/a/b',
  ])('Q3 and no other file: %s', async (url) => {
    expect(await get(url)).toBeUndefined();
  });

  it('H1 or, if it was not built, the response says how to build it', async () => {
    const none = await staticPage(path.join(dir, 'none'));
    const response = await none(new Request('http://localhost/'));
    expect(response?.status).toBe(503);
    expect(await response?.text()).toContain('npm run build:page');
  });
});
