import { isRecord } from '../lib/record.ts';

/** `next`, with the parts of `before` that equal its own: what was rendered of them is not rendered again. Both are JSON. */
export function keepSame<T>(before: unknown, next: T): T;
export function keepSame(before: unknown, next: unknown): unknown {
  if (Array.isArray(before) && Array.isArray(next)) {
    const kept: unknown[] = next.map((item: unknown, at) => keepSame(before[at], item));
    const isSame = before.length === kept.length && kept.every((item, at) => item === before[at]);
    return isSame ? (before as unknown[]) : kept;
  }
  if (isRecord(before) && isRecord(next)) {
    // Not what every object inherits.
    const known = (name: string) => (Object.hasOwn(before, name) ? before[name] : undefined);
    const kept = Object.entries(next).map(([name, value]) => [name, keepSame(known(name), value)] as const);
    const isSame = Object.keys(before).length === kept.length && kept.every(([name, value]) => value === known(name));
    return isSame ? before : Object.fromEntries(kept);
  }
  return next;
}
