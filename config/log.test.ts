import { expect, it } from 'vitest';
import { parseConfig } from './config.ts';
import { createLogger } from './log.ts';

function logged(write: (log: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = [];
  const config = parseConfig({
    OPENAI_API_KEY: 'sk-canary-openai',
    PERDURE_JWT_SECRET: 'jwt-"canary" of thirty-two bytes at least',
    DATABASE_URL: 'postgres://u:pg-canary@h/d',
  });
  write(createLogger('test', config, { write: (line) => void lines.push(line) }));
  return lines.join('');
}

it('Q3 secrets are in no log: fields, configured values and passwords in URLs are replaced', () => {
  const line = logged((log) =>
    log.info(
      { apiKey: 'field-canary', request: { authorization: 'Bearer nested-canary' }, note: 'key sk-canary-openai' },
      'jwt-"canary" of thirty-two bytes at least and redis://r:redis-canary@h and pg-canary',
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
