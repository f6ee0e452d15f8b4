import { describe, expect, it } from 'vitest';
import { parseConfig, requireDatabase } from './config.ts';
import { ConfigError } from './error.ts';

function problemsOf(env: Record<string, string>): string {
  try {
    parseConfig(env);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).message;
  }
  throw new Error('the environment was accepted');
}

describe('parseConfig', () => {
  it('H1 every setting has a default', () => {
    const config = parseConfig({}, '/srv/app');
    expect(config).toMatchObject({
      port: 8787,
      portIsSet: false,
      host: '127.0.0.1',
      dir: '/srv/app/.perdure',
      workspaces: '/srv/app/.perdure/workspaces',
      idleCloseMs: 7 * 24 * 3_600_000,
      maxBodyBytes: 1_048_576,
      maxMessageBytes: 262_144,
      continueAsNewEvents: 300,
      heartbeatTimeoutMs: 2_000,
      shutdownGraceMs: 10_000,
      saveBufferMs: 30,
      sweepIntervalMs: 1_000,
      logLevel: 'info',
      databaseUrl: undefined,
      temporalAddress: undefined,
    });
  });

  it('H1 reads durations in milliseconds, sizes in bytes, paths from the working directory', () => {
    const config = parseConfig(
      { PERDURE_IDLE_CLOSE: '36h', PERDURE_MAX_BODY: '2MiB', PERDURE_MAX_MESSAGE: '1000', PERDURE_AGENTS: 'agents.ts' },
      '/srv/app',
    );
    expect(config).toMatchObject({ idleCloseMs: 129_600_000, maxBodyBytes: 2_097_152, maxMessageBytes: 1_000 });
    expect(config.agentsModule).toBe('/srv/app/agents.ts');
  });

  it('H1 an empty variable counts as unset', () => {
    expect(parseConfig({ PORT: '', OPENAI_API_KEY: '' })).toMatchObject({ portIsSet: false, openaiApiKey: undefined });
  });

  it('H1 PERDURE_DIRECT_DATABASE_URL defaults to DATABASE_URL', () => {
    const pooled = 'postgres://u:p@pooler:6432/db';
    expect(parseConfig({ DATABASE_URL: pooled }).directDatabaseUrl).toBe(pooled);
    const direct = 'postgres://u:p@db:5432/db';
    const config = parseConfig({ DATABASE_URL: pooled, PERDURE_DIRECT_DATABASE_URL: direct });
    expect(requireDatabase(config)).toMatchObject({ databaseUrl: pooled, directDatabaseUrl: direct });
  });

  it('H1 says which variable is missing when a process needs a database', () => {
    expect(() => requireDatabase(parseConfig({}))).toThrow(/DATABASE_URL: expected a URL/);
  });

  it.each([
    ['PORT', '80a', 'a whole number from 0 to 65535'],
    ['PORT', '70000', 'a whole number from 0 to 65535'],
    ['PORT', '-1', 'a whole number from 0 to 65535'],
    ['DATABASE_URL', 'mysql://x/y', 'a URL such as postgres://'],
    ['TEMPORAL_ADDRESS', 'localhost', 'an address such as localhost:7233'],
    ['PERDURE_IDLE_CLOSE', '7 fortnights', 'a duration such as 7d'],
    ['PERDURE_HEARTBEAT_TIMEOUT', '0s', 'a duration such as 2s'],
    ['PERDURE_MAX_BODY', 'big', 'a size such as 1MiB'],
    ['PERDURE_MODEL', 'gpt', 'a model such as openai/gpt-5'],
    ['PERDURE_LOG_LEVEL', 'loud', 'one of trace, debug'],
    ['PERDURE_JWT_SECRET', '31 bytes are one byte too few..', 'a secret of at least 32 bytes'],
    ['OPENAI_BASE_URL', 'localhost:1234/v1', 'a URL such as https://host/path'],
    ['PERDURE_CONTINUE_AS_NEW_EVENTS', '3', 'a whole number from 20 to 50000'],
  ])('H1 names %s when it is %j and says what was expected', (name, value, expected) => {
    expect(problemsOf({ [name]: value })).toContain(`${name}: expected ${expected}`);
  });

  it.each([
    ['PERDURE_IDLE_CLOSES', 'PERDURE_IDLE_CLOSE'],
    ['PERDURE_JTW_SECRET', 'PERDURE_JWT_SECRET'],
    ['PERDURE_MAX_BODY_SIZE', 'PERDURE_MAX_BODY'],
  ])('H1 names %s, which is no setting, and the nearest one', (name, near) => {
    const message = problemsOf({ [name]: 's3cret-value' });
    expect(message).toContain(`${name}: expected a known setting; the nearest is ${near}`);
    expect(message).not.toContain('s3cret-value');
  });

  it('H1 names all problems at once', () => {
    const message = problemsOf({ PORT: 'x', PERDURE_IDLE_CLOSE: 'x', PERDURE_MAX_BODY: 'x' });
    expect(message.split('\n')).toHaveLength(4);
  });

  it('H1 refuses two ways of verifying a caller', () => {
    expect(problemsOf({ PERDURE_JWT_SECRET: 's3cret-value', PERDURE_JWKS_URL: 'https://id.example/jwks' })).toContain(
      'PERDURE_JWKS_URL',
    );
  });

  it.each(['PERDURE_JWT_ISSUER', 'PERDURE_JWT_AUDIENCE', 'PERDURE_JWT_ALLOW_NO_EXP'])(
    'H1 refuses %s where no tokens are verified',
    (name) => {
      expect(problemsOf({ [name]: 'true' })).toContain(`${name}: expected nothing unless PERDURE_JWT_SECRET`);
      expect(() => parseConfig({ [name]: 'true', PERDURE_JWKS_URL: 'https://id.example/jwks' })).not.toThrow();
    },
  );

  it('Q3 never repeats a value in a problem', () => {
    expect(problemsOf({ DATABASE_URL: 'mysql://u:hunter22@h/d', PORT: 'hunter22' })).not.toContain('hunter22');
  });
});
