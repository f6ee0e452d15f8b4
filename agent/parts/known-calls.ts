import { canonicalJson } from '../../domain/canonical-json.ts';

/** The tool calls of a step, to find out which are sent again: with the same id, name and input. */
export class KnownCalls {
  private readonly all = new Map<string, AlikeCalls>();

  /** The calls with this id and name. Without an id each call is one of its own. */
  alike(providerId: string, name: string): AlikeCalls {
    if (providerId === '') return new AlikeCalls();
    const key = JSON.stringify([providerId, name]);
    const alike = this.all.get(key) ?? new AlikeCalls();
    this.all.set(key, alike);
    return alike;
  }
}

/** The calls of a step with one id and name. */
export class AlikeCalls {
  private count = 0;
  private open = 0;
  /** The input of the first one, once it is complete, until another one is. */
  private first: unknown[] = [];
  /** The inputs of the complete ones, as canonical JSON. */
  private readonly inputs = new Set<string>();

  /** One begins. Returns whether it may repeat another one. */
  begins(): boolean {
    this.count += 1;
    this.open += 1;
    return this.count > 1;
  }

  /** One is complete. Returns whether all are. */
  ends(): boolean {
    this.open -= 1;
    return this.open === 0;
  }

  /** Whether the input of a complete one is that of one before it. */
  repeats(input: unknown): boolean {
    if (this.count === 1) {
      this.first.push(input);
      return false;
    }
    for (const each of this.first.splice(0)) this.inputs.add(canonicalJson(each));
    const json = canonicalJson(input);
    if (this.inputs.has(json)) return true;
    this.inputs.add(json);
    return false;
  }
}
