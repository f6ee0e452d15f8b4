// docker-compose.yml as data, its variables filled in as compose does.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parse } from 'yaml';
import { ROOT } from './image.ts';

/** What we read of a service. What one lacks in the file is empty here. */
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

const NOTHING: Service = {
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
 * The services under an environment.
 * @throws {Error} naming a variable that is asked for (`${NAME:?…}`) and missing
 */
export async function composeServices(env: Record<string, string>): Promise<Record<string, Service>> {
  const text = await readFile(COMPOSE_FILE, 'utf8');
  // Values are filled in once they are strings: an empty one stays a string.
  const fill = (_key: string, value: unknown) => (typeof value === 'string' ? interpolated(value, env) : value);
  const document = JSON.stringify(parse(text, { merge: true }), fill);
  const { services } = JSON.parse(document) as { services: Record<string, Partial<Service>> };
  return Object.fromEntries(Object.entries(services).map(([name, service]) => [name, { ...NOTHING, ...service }]));
}

/** Stands around what is missing; in no file. */
const MISSING = '\u{1F6AB}';

/** `${A}`, `${A:-otherwise}` and `${A:?what is missing}`; what is in braces may hold others. */
function interpolated(text: string, env: Record<string, string>): string {
  const innermost = /\$\{(\w+)(?::([-?])([^${}]*))?\}/g;
  const next = text.replaceAll(innermost, (_whole, name: string, kind: string | undefined, rest: string) => {
    const value = env[name] ?? '';
    if (value !== '') return value;
    // Asked for only if nothing around it has a value: then it is still there in the end.
    if (kind === '?') return `${MISSING}${name} ${rest}${MISSING}`;
    return kind === '-' ? rest : '';
  });
  if (next !== text) return interpolated(next, env);
  const [, missing] = text.split(MISSING);
  if (missing !== undefined) throw new Error(missing);
  return text;
}
