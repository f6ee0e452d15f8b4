import type { Config, Env } from './config.ts';

/** Written in place of a secret. */
export const REDACTED = '[redacted]';
/** Shorter values are too likely to be part of an ordinary word. */
const SHORTEST_SECRET = 6;

/** Replaces every configured secret in a text, including its JSON, URL and base64 encodings. */
export type Hide = (text: string) => string;

/** The settings that hold secrets: whole values, and URLs with a password or token before the host. */
const VALUES = {
  openaiApiKey: 'OPENAI_API_KEY',
  anthropicApiKey: 'ANTHROPIC_API_KEY',
  temporalApiKey: 'TEMPORAL_API_KEY',
  jwtSecret: 'PERDURE_JWT_SECRET',
  hideUsersKey: 'PERDURE_HIDE_USERS_KEY',
  s3SecretAccessKey: 'PERDURE_S3_SECRET_ACCESS_KEY',
} as const;
const URLS = {
  databaseUrl: 'DATABASE_URL',
  directDatabaseUrl: 'PERDURE_DIRECT_DATABASE_URL',
  openaiBaseUrl: 'OPENAI_BASE_URL',
  anthropicBaseUrl: 'ANTHROPIC_BASE_URL',
  s3Url: 'PERDURE_S3_URL',
  jwksUrl: 'PERDURE_JWKS_URL',
  temporalUi: 'PERDURE_TEMPORAL_UI',
} as const;

/** The part of the configuration that holds secrets. */
export type Secrets = Partial<Pick<Config, keyof typeof VALUES | keyof typeof URLS>>;

/** The secrets of an environment that need not be a valid configuration. */
export function secretsIn(env: Env): Secrets {
  return Object.fromEntries([...entriesOf(VALUES), ...entriesOf(URLS)].map(([key, setting]) => [key, env[setting]]));
}

/**
 * Creates a function that removes the configured secrets: API keys, the secrets of tokens and user ids, and the passwords and
 * tokens in URLs. Names of users that have a password are no secrets.
 */
export function hideSecrets(config: Secrets): Hide {
  return hideTexts(secretsOf(config).map(({ secret }) => secret));
}

/** Creates a function that removes texts, but for those that are too short. */
export function hideTexts(texts: readonly string[]): Hide {
  const secrets = texts.filter((secret) => secret.length >= SHORTEST_SECRET);
  // Longest first, because one may contain another.
  const forms = [...new Set(secrets.flatMap(formsOf))].toSorted((one, other) => other.length - one.length);
  return (text) => forms.reduce((clean, form) => clean.replaceAll(form, REDACTED), text);
}

/** The settings whose secret is too short to be removed: it would match parts of ordinary words and numbers. */
export function settingsTooShortToHide(config: Secrets): string[] {
  const short = secretsOf(config).filter(({ secret }) => secret !== '' && secret.length < SHORTEST_SECRET);
  return [...new Set(short.map(({ setting }) => setting))];
}

function secretsOf(config: Secrets): { setting: string; secret: string }[] {
  const values = entriesOf(VALUES).map(([key, setting]) => ({ setting, secret: config[key] ?? '' }));
  const inUrls = entriesOf(URLS).flatMap(([key, setting]) =>
    secretsInUrl(config[key] ?? '').map((secret) => ({ setting, secret })),
  );
  // Whoever uses it may leave out the space around it.
  return [...values, ...inUrls].flatMap(({ setting, secret }) =>
    [secret, secret.trim()].map((each) => ({ setting, secret: each })),
  );
}

function entriesOf<Names extends object>(names: Names): [keyof Names, string][] {
  return Object.entries(names) as [keyof Names, string][];
}

/** What stands before the host of a URL that cannot be parsed. */
const USER_INFO = /^[^:]*:\/\/([^:]*)(?::(.*))?@/s;

/** The password in a URL, as written and decoded. In an HTTP URL without one, what stands in place of a user's name is a token. */
function secretsInUrl(url: string): string[] {
  const { username, password, searchParams } = URL.canParse(url) ? new URL(url) : userInfoOf(url);
  const isHttp = /^https?:/i.test(url);
  const secret = password === '' && isHttp ? username : password;
  // The driver of Postgres takes a password from the query, too.
  const fromQuery = isHttp ? null : searchParams?.get('password');
  return [secret, decoded(secret), fromQuery ?? ''];
}

function userInfoOf(url: string): { username: string; password: string; searchParams?: URLSearchParams } {
  const [, username = '', password = ''] = USER_INFO.exec(url) ?? [];
  return { username, password };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Like pg, a "%" that begins no escape is taken literally.
    return text;
  }
}

function formsOf(secret: string): string[] {
  const inJson = JSON.stringify(secret).slice(1, -1);
  return [secret, inJson, encodeURIComponent(secret), ...inBase64(secret)];
}

/**
 * Base64 encodes three bytes at a time, so a secret's encoding depends on how many bytes precede it. These are the
 * characters that depend on the secret alone, for each of the three cases.
 */
function inBase64(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [0, 1, 2].flatMap((before) => {
    const whole = Math.floor((before + bytes.length) / 3) * 4;
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const own = encoded.slice(before === 0 ? 0 : 4, whole);
    return own.length < SHORTEST_SECRET ? [] : [own, own.replaceAll('+', '-').replaceAll('/', '_')];
  });
}
