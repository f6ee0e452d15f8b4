// Reads a compose file and interpolates its variables as compose does.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parse } from 'yaml';
import { ROOT } from './image.ts';

/** The fields of a service that are used; empty if the file does not set them. */
export interface Service {
  image: string;
  build: string;
  command: string[];
  entrypoint: string[];
  environment: Record<string, string>;
  ports: string[];
  volumes: string[];
  healthcheck: { test: string[] };
  restart: string;
  read_only: boolean;
  stop_grace_period: string;
  depends_on: Record<string, { condition: string }>;
}

const EMPTY: Service = {
  image: '',
  build: '',
  command: [],
  entrypoint: [],
  environment: {},
  ports: [],
  volumes: [],
  healthcheck: { test: [] },
  restart: '',
  read_only: false,
  stop_grace_period: '10s',
  depends_on: {},
};

export const COMPOSE_FILE = path.join(ROOT, 'docker-compose.yml');

/**
 * The services of a compose file, by default docker-compose.yml, with the environment's variables.
 * @throws {Error} naming a required variable (`${NAME:?…}`) that is missing
 */
export async function composeServices(
  env: Record<string, string>,
  file: string = COMPOSE_FILE,
): Promise<Record<string, Service>> {
  const text = await readFile(file, 'utf8');
  // Interpolates after parsing, so that an empty value stays a string.
  const fill = (_key: string, value: unknown) => (typeof value === 'string' ? interpolated(value, env) : value);
  const document = JSON.stringify(parse(text, { merge: true }), fill);
  const { services } = JSON.parse(document) as { services: Record<string, Partial<Service>> };
  return Object.fromEntries(Object.entries(services).map(([name, service]) => [name, { ...EMPTY, ...service }]));
}

/** Marks a missing variable; occurs in no file. */
const MISSING = '\u{1F6AB}';

/** Interpolates `${A}`, `${A:-default}` and `${A:?message}`, which may be nested. */
function interpolated(text: string, env: Record<string, string>): string {
  const innermost = /\$\{(\w+)(?::([-?])([^${}]*))?\}/g;
  const next = text.replaceAll(innermost, (_whole, name: string, kind: string | undefined, rest: string) => {
    const value = env[name] ?? '';
    if (value !== '') return value;
    // An error only if the surrounding expression has no value: the mark is then still in the result.
    if (kind === '?') return `${MISSING}${name} ${rest}${MISSING}`;
    return kind === '-' ? rest : '';
  });
  if (next !== text) return interpolated(next, env);
  const [, missing] = text.split(MISSING);
  if (missing !== undefined) throw new Error(missing);
  return text;
}
