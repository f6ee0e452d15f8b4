import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import type { Page } from '../../host/context.ts';
import { staticPage } from '../../host/static-page.ts';

const dir = scratchDir();
let page: Page;
beforeAll(async () => {
  await mkdir(path.join(dir, 'dist', 'assets'), { recursive: true });
  await writeFile(path.join(dir, 'secret.html'), 'secret');
  await writeFile(path.join(dir, 'dist', '.made-from'), 'digest');
  await writeFile(path.join(dir, 'dist', 'index.html'), '<!doctype html>');
  await writeFile(path.join(dir, 'dist', 'assets', 'index-abc.js'), 'go()');
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
      'content-security-policy': expect.stringContaining("default-src 'none'; script-src 'self'"),
    });
    const etag = response?.headers.get('etag') ?? '';
    // A proxy that compresses makes the tag weak.
    for (const known of [etag, `"other", ${etag}`, `W/${etag}`]) {
      const again = await get('/', { 'if-none-match': known });
      expect([known, again?.status, await again?.text()]).toEqual([known, 304, '']);
      expect(again?.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'");
    }
  });

  it('H1 with immutable assets, whose names contain a hash', async () => {
    const response = await get('/assets/index-abc.js');
    expect(response?.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(response?.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  });

  it.each(['/secret.html', '/../secret.html', '/%2e%2e/secret.html', '/assets/..%2f..%2fsecret.html', '/.made-from'])(
    'Q3 and no other file: %s',
    async (url) => {
      expect(await get(url)).toBeUndefined();
    },
  );

  it('H1 or, if it was not built, the response says how to build it', async () => {
    const none = await staticPage(path.join(dir, 'none'));
    const response = await none(new Request('http://localhost/'));
    expect(response?.status).toBe(503);
    expect(await response?.text()).toContain('npm run build:page');
  });
});
