/** A random number generator with a seed. */
export class Random {
  private state: number;

  /** @param names distinguish this stream from other streams of the same seed */
  constructor(seed: number, ...names: (string | number)[]) {
    this.state = seed >>> 0;
    for (const character of names.join('/')) this.state = Math.imul(this.state ^ character.charCodeAt(0), 0x01000193);
  }

  /** In [0, 1) (mulberry32). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `least` to `most`, both inclusive. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.between(0, items.length - 1)]!;
  }

  /** A name, with a probability proportional to its weight. */
  weighted<Name extends string>(weights: Readonly<Partial<Record<Name, number>>>): Name {
    const entries = Object.entries(weights) as [Name, number][];
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [name, weight] of entries) if ((left -= weight) < 0) return name;
    return entries.at(-1)![0];
  }
}
