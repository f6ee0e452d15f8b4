import { canonicalJson } from '../domain/canonical-json.ts';

/** The calls of a step with one id and name. */
interface Group {
  count: number;
  /** The input of the first one, once it is complete, until another one is. */
  first: unknown[];
  /** The inputs of the complete ones, as canonical JSON. */
  inputs: Set<string>;
}

/** The tool calls of a step, to find out which are sent again: with the same id, name and input. */
export class KnownCalls {
  private readonly groups = new Map<string, Group>();

  /** A call begins. Returns whether it may repeat another one. */
  begins(providerId: string, name: string): boolean {
    // Without an id each call is one of its own.
    if (providerId === '') return false;
    const key = keyOf(providerId, name);
    const group = this.groups.get(key) ?? { count: 0, first: [], inputs: new Set() };
    group.count += 1;
    this.groups.set(key, group);
    return group.count > 1;
  }

  /** A call that has begun is complete. Returns whether it repeats one that was complete before. */
  repeats({ providerId, name }: { providerId: string; name: string }, input: unknown): boolean {
    const group = this.groups.get(keyOf(providerId, name));
    if (group === undefined) return false;
    if (group.count === 1) {
      group.first.push(input);
      return false;
    }
    for (const each of group.first.splice(0)) group.inputs.add(canonicalJson(each));
    const json = canonicalJson(input);
    if (group.inputs.has(json)) return true;
    group.inputs.add(json);
    return false;
  }
}

function keyOf(providerId: string, name: string): string {
  return JSON.stringify([providerId, name]);
}
