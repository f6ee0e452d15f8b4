import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parseConfig, requireDatabase } from './config.ts';
import { ConfigError } from './error.ts';
import { showUserWith } from './show-user.ts';

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
      staleAssignmentMs: 1_800_000,
      staleProgressMs: 1_800_000,
      leaseMs: 750,
      providerIdleMs: 120_000,
      heartbeatTimeoutMs: 5_000,
      shutdownGraceMs: 10_000,
      saveOn: 'chunk',
      saveBufferMs: 30,
      sessionCacheBytes: 268_435_456,
      sweepIntervalMs: 1_000,
      logLevel: 'info',
      databaseUrl: undefined,
      temporalAddress: undefined,
      taskQueue: 'perdure',
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

  it('H3 reads origins separated by commas', () => {
    expect(parseConfig({}).allowedOrigins).toEqual([]);
    const given = 'http://localhost:5173, https://app.example';
    expect(parseConfig({ PERDURE_ALLOWED_ORIGINS: given }).allowedOrigins).toEqual(given.split(', '));
  });

  it('H1 an empty variable counts as unset', () => {
    expect(parseConfig({ PORT: '', OPENAI_API_KEY: '' })).toMatchObject({ portIsSet: false, openaiApiKey: undefined });
  });

  it('H1 PERDURE_PREPARED_STATEMENTS is true, false or, by default, found out', () => {
    const of = (value: string) => parseConfig({ PERDURE_PREPARED_STATEMENTS: value }).preparedStatements;
    expect(['', 'auto', 'true', 'false'].map(of)).toEqual([undefined, undefined, true, false]);
    expect(() => of('no')).toThrow('PERDURE_PREPARED_STATEMENTS: expected auto, true or false');
  });

  it('X2 snapshots are copies unless PERDURE_SNAPSHOTS says git or off', () => {
    const of = (value: string) => parseConfig({ PERDURE_SNAPSHOTS: value }).snapshots;
    expect(['', 'copy', 'git', 'off'].map(of)).toEqual(['copy', 'copy', 'git', 'off']);
    expect(() => of('true')).toThrow('PERDURE_SNAPSHOTS: expected copy, git or off');
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
    ['PERDURE_MAX_FILE', '200MiB', 'a size from 1MiB to 100MiB'],
    ['PERDURE_MAX_IMPORT', '5GiB', 'a size from 1MiB to 4096MiB'],
    ['PERDURE_S3_URL', 's3://bucket', 'a URL such as https://host/path'],
    ['PERDURE_S3_REGION', 'us-west-2', 'nothing unless PERDURE_S3_URL is set'],
    ['PERDURE_ALLOWED_ORIGINS', '*', 'exact origins such as http://localhost:5173, separated by commas; not *'],
    ['PERDURE_ALLOWED_ORIGINS', 'http://localhost:5173/', 'exact origins such as http://localhost:5173'],
    ['PERDURE_ALLOWED_ORIGINS', 'https://app.example,', 'exact origins such as http://localhost:5173'],
    ['PORT', '80a', 'a whole number from 0 to 65535'],
    ['PORT', '70000', 'a whole number from 0 to 65535'],
    ['PORT', '-1', 'a whole number from 0 to 65535'],
    ['DATABASE_URL', 'mysql://x/y', 'a URL such as postgres://'],
    ['TEMPORAL_ADDRESS', 'localhost', 'an address such as localhost:7233'],
    ['PERDURE_IDLE_CLOSE', '7 fortnights', 'a duration such as 7d'],
    ['PERDURE_HEARTBEAT_TIMEOUT', '0s', 'a duration such as 5s'],
    ['PERDURE_LEASE', '299ms', 'a duration from 300ms to 30s'],
    ['PERDURE_LEASE', '31s', 'a duration from 300ms to 30s'],
    ['PERDURE_MAX_BODY', 'big', 'a size such as 1MiB'],
    ['PERDURE_MODEL', 'gpt', 'a model such as openai/gpt-5'],
    ['PERDURE_LOG_LEVEL', 'loud', 'one of trace, debug'],
    ['PERDURE_JWT_SECRET', '31 bytes are one byte too few..', 'a secret of at least 32 bytes'],
    ['OPENAI_BASE_URL', 'localhost:1234/v1', 'a URL such as https://host/path'],
    ['PERDURE_CONTINUE_AS_NEW_EVENTS', '3', 'a whole number from 20 to 50000'],
    ['PERDURE_TASK_QUEUE', 'two words', 'a name of 1 to 200 letters'],
    ['PERDURE_TASK_QUEUE', '/_sys/one', 'a name of 1 to 200 letters'],
    ['PERDURE_TASK_QUEUE', 'q'.repeat(201), 'a name of 1 to 200 letters'],
    ['PERDURE_TRUST_OWN_INSTRUCTIONS', '1', 'true or false'],
    ['PERDURE_HIDE_USERS', 'yes', 'true or false'],
    ['PERDURE_HIDE_USERS_KEY', '31 bytes', 'a key of 32 bytes, as 64 hexadecimal digits or in base64'],
    ['PERDURE_SAVE_BUFFER_MS', '60001', 'a whole number from 0 to 60000'],
    ['PERDURE_SAVE_BUFFER_MS', '-1', 'a whole number from 0 to 60000'],
    ['PERDURE_SAVE_BUFFER_SIZE', '0', 'a whole number from 1 to 100000'],
    ['PERDURE_SAVE_ON', 'word', 'chunk, step or turn'],
    ['PERDURE_SESSION_CACHE', '3MiB', 'a size from 4MiB to 65536MiB'],
    ['PERDURE_SESSION_CACHE', '65GiB', 'a size from 4MiB to 65536MiB'],
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

  it('T4 a buffer of chunks that are not saved is refused', () => {
    const unused = 'PERDURE_SAVE_BUFFER_MS: expected nothing unless PERDURE_SAVE_ON is chunk';
    expect(problemsOf({ PERDURE_SAVE_ON: 'step', PERDURE_SAVE_BUFFER_MS: '10' })).toContain(unused);
    expect(parseConfig({ PERDURE_SAVE_ON: 'chunk', PERDURE_SAVE_BUFFER_MS: '10' }).saveBufferMs).toBe(10);
    expect(parseConfig({ PERDURE_SAVE_ON: 'turn' }).saveOn).toBe('turn');
  });

  it('H1 PERDURE_HIDE_USERS and PERDURE_HIDE_USERS_KEY need each other', () => {
    const key = Buffer.alloc(32, 7);
    expect(problemsOf({ PERDURE_HIDE_USERS: 'true' })).toContain('PERDURE_HIDE_USERS_KEY: expected a key of 32 bytes');
    const alone = 'PERDURE_HIDE_USERS_KEY: expected nothing unless PERDURE_HIDE_USERS is true';
    expect(problemsOf({ PERDURE_HIDE_USERS_KEY: key.toString('hex') })).toContain(alone);
    const shown = (['hex', 'base64', 'base64url'] as const).map((encoding) => {
      const given = { PERDURE_HIDE_USERS: 'true', PERDURE_HIDE_USERS_KEY: key.toString(encoding) };
      return showUserWith(parseConfig(given).hideUsersKey)('ada');
    });
    expect(new Set(shown)).toEqual(new Set([createHmac('sha256', key).update('ada').digest('hex')]));
    expect(showUserWith(parseConfig({}).hideUsersKey)('ada')).toBe('ada');
  });

  it.each(['PERDURE_JWT_ISSUER', 'PERDURE_JWT_AUDIENCE', 'PERDURE_JWT_ALLOW_NO_EXP'])(
    'H1 refuses %s where no tokens are verified',
    (name) => {
      expect(problemsOf({ [name]: 'true' })).toContain(`${name}: expected nothing unless PERDURE_JWT_SECRET`);
      expect(() => parseConfig({ [name]: 'true', PERDURE_JWKS_URL: 'https://id.example/jwks' })).not.toThrow();
    },
  );

  it('H1 H3 refuses PERDURE_USER where tokens are verified, and one that no header could carry', () => {
    const unused = 'PERDURE_USER: expected nothing when PERDURE_JWT_SECRET';
    expect(problemsOf({ PERDURE_USER: 'ada', PERDURE_JWKS_URL: 'https://id.example/jwks' })).toContain(unused);
    expect(problemsOf({ PERDURE_USER: 'caf\u00e9' })).toContain('PERDURE_USER: expected 1 to 128 printable');
    expect(parseConfig({ PERDURE_USER: 'ada' }).user).toBe('ada');
  });

  it('Q3 never repeats a value in a problem', () => {
    expect(problemsOf({ DATABASE_URL: 'mysql://u:hunter22@h/d', PORT: 'hunter22' })).not.toContain('hunter22');
  });
});
