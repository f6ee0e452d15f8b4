import { expect, it } from 'vitest';
import { growthOf, MOST_LINEAR } from '../tools/test-kit/growth.ts';
import { parseConfig } from './config.ts';
import { createLogger } from './log.ts';

function logged(write: (log: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = [];
  const config = parseConfig({
    OPENAI_API_KEY: 'sk-canary-openai',
    PERDURE_JWT_SECRET: 'jwt-"canary" of thirty-two bytes at least',
    DATABASE_URL: 'postgres://u:pg%2Fcanary@h/d',
  });
  write(createLogger('test', config, { write: (line) => void lines.push(line) }));
  return lines.join('');
}

it('Q3 secrets are in no log: fields, configured values and passwords in URLs are replaced', () => {
  const line = logged((log) =>
    log.info(
      { apiKey: 'field-canary', request: { authorization: 'Bearer nested-canary' }, note: 'key sk-canary-openai' },
      'jwt-"canary" of thirty-two bytes at least and redis://r:redis-canary@h and pg/canary and pg%2Fcanary',
    ),
  );
  expect(line).not.toContain('canary');
  expect(JSON.parse(line)).toMatchObject({ name: 'test', apiKey: '[redacted]', note: 'key [redacted]' });
});

it('Q3 secrets are in no log: not in the message and stack of an error either', () => {
  const line = logged((log) => log.error({ err: new Error('refused sk-canary-openai') }, 'failed'));
  expect(line).not.toContain('canary');
  expect(JSON.parse(line).err.message).toBe('refused [redacted]');
});

it.each([0, 1, 2, 3])('Q3 secrets are in no log: nor in base64, %i bytes after its beginning', (before) => {
  const secret = 'sk-canary-openai';
  const encoded = Buffer.from(`${'x'.repeat(before)}${secret}:rest`).toString('base64');
  const line = JSON.parse(logged((log) => log.info(encoded))) as { msg: string };
  expect(line.msg).toContain('[redacted]');
  const left = line.msg.split('[redacted]').map((part) => Buffer.from(part, 'base64').toString());
  for (const part of left) expect(part).not.toMatch(/canary/);
});

it('Q3 text quoted by a parser error is in no log', () => {
  const cause = (() => {
    try {
      return JSON.parse('{ "a": quoted-canary }') as Error;
    } catch (error) {
      return error as Error;
    }
  })();
  const line = logged((log) => log.error({ err: new Error('outside', { cause }) }, 'failed'));
  expect(line).toContain('SyntaxError');
  expect(line).not.toMatch(/quoted|canary/);
});

it('Q3 the time to log a long line is linear in its length', async () => {
  const log = (size: number) => {
    const line = logged((to) => to.info({ note: 'a'.repeat(size), more: 'x://y:http://z'.repeat(size / 20) }, 'long'));
    expect(line.length).toBeGreaterThan(size);
  };
  expect(await growthOf(log, 100_000)).toBeLessThan(MOST_LINEAR);
});

it('Q3 the password of any configured URL is in no log, nor a token in its place; names of users stay', () => {
  const lines: string[] = [];
  const config = parseConfig({
    DATABASE_URL: 'postgres://postgres:canary-1@h/d',
    PERDURE_DIRECT_DATABASE_URL: 'postgres://postgres@h/d?password=canary-2',
    OPENAI_BASE_URL: 'https://canary%2D3@gateway/v1',
    ANTHROPIC_BASE_URL: 'https://someone:canary-4@gateway/v1',
    PERDURE_JWKS_URL: 'http://canary-5@keys/',
  });
  const log = createLogger('test', config, { write: (line) => void lines.push(line) });
  log.info('canary-1 canary-2 canary%2D3 canary-3 canary-4 canary-5');
  log.info('fetch failed: https://canary-of-another-url@gateway/v1');
  expect(lines.join('')).not.toContain('canary');
  log.info('postgres and someone at https://gateway/v1/@scope, ssh://git@host');
  expect(lines.at(-1)).toContain('"postgres and someone at https://gateway/v1/@scope, ssh://git@host"');
});

it('Q3 a secret that is part of a number or of an escape leaves every line valid JSON', () => {
  const lines: string[] = [];
  const config = parseConfig({ DATABASE_URL: 'postgres://u:123456@h/d', OPENAI_API_KEY: 'ncanary' });
  const log = createLogger('test', config, { write: (line) => void lines.push(line) });
  log.info({ bytes: 123456789, 'key 123456': 'a\ncanary 123456' }, '"123456"');
  expect(JSON.parse(lines[0]!)).toMatchObject({
    bytes: 123456789,
    'key [redacted]': 'a\ncanary [redacted]',
    msg: '"[redacted]"',
  });
});

it('Q3 a secret too short to be removed causes a warning with its setting', () => {
  const lines: string[] = [];
  const config = parseConfig({ DATABASE_URL: 'postgres://u:abc12@h/d', OPENAI_API_KEY: 'sk-1' });
  createLogger('test', config, { write: (line) => void lines.push(line) });
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { level: 40, settings: ['OPENAI_API_KEY', 'DATABASE_URL', 'PERDURE_DIRECT_DATABASE_URL'] },
  ]);
  expect(lines.join('')).not.toMatch(/abc12|sk-1"/);
  expect(logged(() => {})).toBe('');
});

it('Q3 a password with a literal "%" is removed, too', () => {
  const lines: string[] = [];
  const config = parseConfig({ DATABASE_URL: 'postgres://u:canary%@h/d' });
  createLogger('test', config, { write: (line) => void lines.push(line) }).info('canary%');
  expect(lines.join('')).not.toContain('canary');
});
