import { LASTING_SCOPES } from '../../domain/state-keys.ts';
import { stateValue } from '../../domain/state-value.ts';
import { byteLength, cleanText, type Json } from '../../domain/text.ts';
import type { CacheScope, ToolCache } from '../definition/define.ts';

const MAX_KEY_BYTES = 256;
const MAX_VALUE_BYTES = 1024 * 1024;
const MAX_TTL_MS = 30 * 86_400_000;

/** Where a tool's cache stores. */
export interface CacheStore {
  read(scope: CacheScope, key: string): Promise<Json | undefined>;
  write(scope: CacheScope, key: string, value: Json, ttlMs: number): Promise<void>;
}

/** The cache of one tool, which checks what it is given. */
export function toolCache(store: CacheStore): ToolCache {
  return {
    get: async (key, { scope = 'session' } = {}) => store.read(checkScope(scope), checkKey(key)),
    set: async (key, value, { ttlMs, scope = 'session' }) => {
      if (!(Number.isFinite(ttlMs) && ttlMs > 0 && ttlMs <= MAX_TTL_MS)) {
        throw new TypeError(`cache: ttlMs: expected more than 0 and at most ${MAX_TTL_MS} ms, not ${ttlMs}`);
      }
      const clean = stateValue(value, `cache[${JSON.stringify(key)}]`);
      const bytes = byteLength(JSON.stringify(clean));
      if (bytes > MAX_VALUE_BYTES) {
        throw new TypeError(
          `cache[${JSON.stringify(key)}]: expected at most ${MAX_VALUE_BYTES} bytes as JSON, not ${bytes}`,
        );
      }
      await store.write(checkScope(scope), checkKey(key), clean, ttlMs);
    },
  };
}

function checkScope(scope: CacheScope): CacheScope {
  if (LASTING_SCOPES.includes(scope)) return scope;
  throw new TypeError(`cache: scope: expected ${LASTING_SCOPES.join(', ')}, not ${JSON.stringify(scope)}`);
}

function checkKey(key: string): string {
  if (key !== '' && byteLength(key) <= MAX_KEY_BYTES && key === cleanText(key)) return key;
  throw new TypeError(`cache: a key has 1 to ${MAX_KEY_BYTES} bytes of text`);
}
