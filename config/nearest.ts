/** The entry of `names` with the smallest edit distance to `name`. */
export function nearest(name: string, names: readonly string[]): string {
  const [first = '', ...rest] = names;
  return rest.reduce((best, each) => (distance(name, each) < distance(name, best) ? each : best), first);
}

/** Levenshtein distance, computed row by row. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, char] of Array.from(a).entries()) {
    const next = [i + 1];
    for (const [j, other] of Array.from(b).entries()) {
      const replaced = (row[j] ?? 0) + (char === other ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
