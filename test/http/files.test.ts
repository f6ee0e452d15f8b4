import { link, mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Previews } from '../../host/files/previews.ts';
import { PREVIEW_SECRET, startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { userFolder } from '../../workspaces/paths.ts';

let host: TestHost;
let ada: TestCaller;
let folder: string;
let workspaces: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'perdure-files-'));
  workspaces = path.join(folder, 'workspaces');
  host = await startHost({ databaseUrl: await freshDatabase(), workspaces });
  ada = host.as('ada');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Opens a session of Ada whose folder contains these files. */
async function sessionWith(files: Record<string, string>) {
  const id = (await ada.post('/api/sessions', {})).body.session.session_id as string;
  const root = path.join(userFolder(workspaces, 'ada'), id);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(root, name)), { recursive: true });
    await writeFile(path.join(root, name), text);
  }
  const list = () => ada.get(`/api/sessions/${id}/files`);
  return { id, root, list, preview: async () => (await list()).body.preview_url as string };
}

/** Sends the target unchanged: fetch would normalize `..` in a path. */
async function rawStatus(target: string): Promise<number | undefined> {
  return (await raw(target)).statusCode;
}

/** A request under any host name, which need not resolve. */
function raw(target: string, { name = '', method = 'GET' } = {}): Promise<IncomingMessage & { text: string }> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(host.url);
    const headers = { host: `${name || hostname}:${port}`, 'x-perdure-user': 'ada' };
    request({ hostname, port, path: target, method, headers }, (answer) => {
      textOf(answer).then((body) => resolve(Object.assign(answer, { text: body })), reject);
    })
      .on('error', reject)
      .end();
  });
}

const get = (url: string, headers: Record<string, string> = {}) => fetch(`${host.url}${url}`, { headers });

describe('the files of a session', () => {
  it('H6 are listed for its owner, without links and hidden files; for other users the session is unknown', async () => {
    const { id, root, list } = await sessionWith({ 'index.html': '<p>é', 'css/site.css': 'a{}', '.env': 'KEY=1' });
    await mkdir(path.join(root, '.git'));
    await writeFile(path.join(root, '.git/config'), '');
    await symlink('/etc', path.join(root, 'etc'));
    await symlink('/etc/passwd', path.join(root, 'passwd.txt'));
    const { status, body } = await list();
    expect(status).toBe(200);
    expect(body.items).toEqual([
      { path: 'index.html', bytes: 5, updated_at: expect.stringMatching(/^\d{4}-.*Z$/) },
      { path: 'css/site.css', bytes: 3, updated_at: expect.any(String) },
    ]);
    expect(body.preview_url).toMatch(/^\/preview\/[^/]+\/$/);
    expect(body.preview_url).not.toContain(id);
    expect(await host.as('eve').get(`/api/sessions/${id}/files`)).toMatchObject({
      status: 404,
      body: { code: 'SessionNotFound' },
    });
  });

  it('H6 are listed up to 500; the list is empty before a build', async () => {
    const many = Object.fromEntries(Array.from({ length: 520 }, (_, at) => [`pages/${at}.txt`, '']));
    const { list } = await sessionWith({ ...many, 'index.html': '' });
    const { body } = await list();
    expect(body.items).toHaveLength(500);
    expect(body.items[0].path).toBe('index.html');
    const none = { items: [], files_url: expect.any(String), preview_url: null, preview_site_url: null };
    expect((await (await sessionWith({})).list()).body).toEqual(none);
  });

  it('H6 are read below files_url, without an index.html', async () => {
    const { list } = await sessionWith({ 'notes/a.txt': 'x', '.env': 'KEY=1' });
    const { files_url, preview_url } = (await list()).body;
    expect(preview_url).toBeNull();
    expect(await (await get(`${files_url}notes/a.txt`)).text()).toBe('x');
    expect((await get(`${files_url}.env`)).status).toBe(404);
  });
});

describe('a preview', () => {
  it('H6 serves files to a frame without credentials, and restricts them by headers', async () => {
    const { preview } = await sessionWith({ 'index.html': '<h1>Owls', 'about/index.html': 'About', 'a b.js': '1' });
    const url = await preview();
    const answer = await get(url, { origin: 'null' });
    expect(await answer.text()).toBe('<h1>Owls');
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': expect.stringContaining('text/html'),
      'content-security-policy': expect.stringMatching(
        /^sandbox allow-scripts; default-src 'self'.*frame-ancestors 'self'/,
      ),
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    });
    expect(answer.headers.get('set-cookie')).toBeNull();
    expect(await (await get(`${url}about/`)).text()).toBe('About');
    const script = await get(`${url}a%20b.js`);
    expect([script.status, script.headers.get('content-type')]).toEqual([200, expect.stringContaining('javascript')]);
  });

  it('H6 serves nothing outside of the workspace and no hidden files', async () => {
    const { root, preview } = await sessionWith({
      'index.html': '',
      '.env': 'KEY=1',
      '.git/config': '',
      'd/x.txt': '',
    });
    await writeFile(path.join(folder, 'secret.txt'), 'secret');
    await symlink(path.join(folder, 'secret.txt'), path.join(root, 'link.txt'));
    await symlink(folder, path.join(root, 'out'));
    const url = await preview();
    const odd = [
      '../secret.txt',
      '..%2f..%2f..%2fsecret.txt',
      'd/..%2f..%2f..%2f..%2fsecret.txt',
      '..%5csecret.txt',
      '%2e%2e/%2e%2e/%2e%2e/secret.txt',
      '%2fetc%2fpasswd',
      '/etc/passwd',
      'link.txt',
      'out/secret.txt',
      '.env',
      '.git/config',
      'd',
      'none.txt',
      'x%00.txt',
      '%',
    ];
    const statuses = await Promise.all(odd.map((name) => rawStatus(url + name)));
    expect(statuses).toEqual(odd.map(() => 404));
    // A link that was created after the URL was issued.
    await rename(path.join(root, 'd'), path.join(folder, 'd'));
    await symlink(path.join(folder, 'd'), path.join(root, 'd'));
    expect((await get(`${url}d/x.txt`)).status).toBe(404);
    // A hard link within the workspace is served.
    await link(path.join(root, 'index.html'), path.join(root, 'again.html'));
    expect((await get(`${url}again.html`)).status).toBe(200);
  });

  it('H6 expires, and cannot be signed with another secret', async () => {
    const { root, preview } = await sessionWith({ 'index.html': 'here' });
    const url = await preview();
    const secret = PREVIEW_SECRET;
    expect((await get(await new Previews({ workspaces, secret }).url(root))).status).toBe(200);
    expect(await (await get(await new Previews({ workspaces, secret }).url(root, -1))).json()).toMatchObject({
      status: 404,
      code: 'NotFound',
    });
    expect((await get(await new Previews({ workspaces, secret: 'another' }).url(root))).status).toBe(404);
    const [, , token = ''] = url.split('/');
    const at = Math.floor(token.length / 2);
    const forged = token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1);
    expect((await get(`/preview/${forged}/`)).status).toBe(404);
    expect((await get(`/preview/${token}/`)).status).toBe(200);
  });
});

describe('a preview on its own host name', () => {
  const nameIn = (url: string) => new URL(url).hostname;

  it('H6 has its files at the root, and no other route of the host', async () => {
    const { list } = await sessionWith({ 'index.html': '<h1>Owls', 'css/a b.css': 'a{}', '.env': 'KEY=1' });
    const url = (await list()).body.preview_site_url as string;
    expect(url).toMatch(/^http:\/\/[0-9a-z]{1,63}(\.[0-9a-z]{1,63})*\.preview\.localhost:\d+\/$/);
    const name = nameIn(url);
    expect(name.length).toBeLessThan(254);
    const index = await raw('/', { name });
    expect(index.text).toBe('<h1>Owls');
    expect(index.headers['content-security-policy']).toMatch(
      /^sandbox allow-scripts; default-src 'self'.*connect-src 'self'.*frame-ancestors http:\/\/localhost:\*/,
    );
    expect(index.headers['set-cookie']).toBeUndefined();
    expect((await raw('/css/a%20b.css', { name })).text).toBe('a{}');
    const odd = ['/.env', '/css', '/%', '/..%2f..%2fetc/passwd', '/api/sessions', '/openapi.json', '/healthz'];
    expect(await Promise.all(odd.map(async (target) => (await raw(target, { name })).statusCode))).toEqual(
      odd.map(() => 404),
    );
    expect((await raw('/api/sessions', { name, method: 'POST' })).statusCode).toBe(405);
  });

  it('H6 expires, cannot be forged, and is not offered if the path is too long for a host name', async () => {
    const { root } = await sessionWith({ 'index.html': 'here' });
    const at = new URL(host.url);
    const of = (secret: string, seconds?: number) =>
      nameIn(new Previews({ workspaces, secret, local: true }).siteUrl(root, at, seconds)!);
    const good = of(PREVIEW_SECRET);
    expect((await raw('/', { name: good })).text).toBe('here');
    const forged = `${good[0] === 'a' ? 'b' : 'a'}${good.slice(1)}`;
    const names = [forged, of(PREVIEW_SECRET, -1), of('another'), 'x.preview.localhost', '-._.preview.localhost'];
    expect(await Promise.all(names.map(async (name) => (await raw('/', { name })).statusCode))).toEqual(
      names.map(() => 404),
    );
    const previews = new Previews({ workspaces, secret: PREVIEW_SECRET, local: true });
    expect(previews.siteUrl(path.join(root, 'x'.repeat(200)), at)).toBeNull();
    expect(new Previews({ workspaces, secret: PREVIEW_SECRET }).siteUrl(root, at)).toBeNull();
  });
});
