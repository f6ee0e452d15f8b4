import type { Config } from './config.ts';

/** Written in place of a secret. */
export const REDACTED = '[redacted]';
/** Shorter values are too likely to be part of an ordinary word. */
const SHORTEST_SECRET = 6;

/** Replaces every configured secret in a text, including its JSON, URL and base64 encodings. */
export type Hide = (text: string) => string;

/** The settings that hold secrets: whole values, and URLs with a password. */
const VALUES = {
  openaiApiKey: 'OPENAI_API_KEY',
  anthropicApiKey: 'ANTHROPIC_API_KEY',
  temporalApiKey: 'TEMPORAL_API_KEY',
  jwtSecret: 'PERDURE_JWT_SECRET',
  hideUsersKey: 'PERDURE_HIDE_USERS_KEY',
  s3SecretAccessKey: 'PERDURE_S3_SECRET_ACCESS_KEY',
} as const;
const URLS = { databaseUrl: 'DATABASE_URL', directDatabaseUrl: 'PERDURE_DIRECT_DATABASE_URL' } as const;

/** The part of the configuration that holds secrets. */
export type Secrets = Partial<Pick<Config, keyof typeof VALUES | keyof typeof URLS>>;

/** Creates a function that removes the configured secrets: API keys, the secrets of tokens and user ids, database passwords. */
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
  const passwords = entriesOf(URLS).flatMap(([key, setting]) =>
    passwordsOf(config[key]).map((secret) => ({ setting, secret })),
  );
  return [...values, ...passwords];
}

function entriesOf<Names extends object>(names: Names): [keyof Names, string][] {
  return Object.entries(names) as [keyof Names, string][];
}

/** The password as written in the URL, and decoded. */
function passwordsOf(url: string | undefined): string[] {
  const password = url === undefined ? '' : new URL(url).password;
  try {
    return [password, decodeURIComponent(password)];
  } catch {
    // Like pg, a "%" that begins no escape is taken literally.
    return [password];
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
