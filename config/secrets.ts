import type { Config } from './config.ts';

/** What stands in the place of a secret. */
export const REDACTED = '[redacted]';
/** Shorter values are too likely to be part of an ordinary word. */
const SHORTEST_SECRET = 6;

/** Replaces every configured secret in a text, also where it is encoded as JSON, URLs or base64 do. */
export type Hide = (text: string) => string;

/** What `hideSecrets` reads of the configuration. */
export type Secrets = Partial<
  Pick<
    Config,
    'databaseUrl' | 'directDatabaseUrl' | 'openaiApiKey' | 'anthropicApiKey' | 'temporalApiKey' | 'jwtSecret'
  >
>;

/** Hides what the configuration says is secret: API keys, the secret of tokens, passwords of databases. */
export function hideSecrets(config: Secrets): Hide {
  const urls = [config.databaseUrl, config.directDatabaseUrl].flatMap((url) => (url ? passwordsOf(url) : []));
  const values = [config.openaiApiKey, config.anthropicApiKey, config.temporalApiKey, config.jwtSecret, ...urls];
  const secrets = values.filter((secret) => secret !== undefined && secret.length >= SHORTEST_SECRET) as string[];
  // The longest first: one may be a part of another.
  const forms = [...new Set(secrets.flatMap(formsOf))].toSorted((one, other) => other.length - one.length);
  return (text) => forms.reduce((clean, form) => clean.replaceAll(form, REDACTED), text);
}

/** As it stands in the URL and as it is sent. */
function passwordsOf(url: string): string[] {
  const { password } = new URL(url);
  return [password, decodeURIComponent(password)];
}

function formsOf(secret: string): string[] {
  const inJson = JSON.stringify(secret).slice(1, -1);
  return [secret, inJson, encodeURIComponent(secret), ...inBase64(secret)];
}

/** Base64 takes three bytes at a time, so it depends on how many stand before: what of it does not, of each case. */
function inBase64(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [0, 1, 2].flatMap((before) => {
    const whole = Math.floor((before + bytes.length) / 3) * 4;
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const own = encoded.slice(before === 0 ? 0 : 4, whole);
    return own.length < SHORTEST_SECRET ? [] : [own, own.replaceAll('+', '-').replaceAll('/', '_')];
  });
}
