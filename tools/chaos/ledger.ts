/** A promise that did not hold. */
export interface Violation {
  promise: string;
  where: string;
  what: string;
}

/** Counts checks by promise and collects violations. */
export class Ledger {
  readonly checked = new Map<string, number>();
  readonly violations: Violation[] = [];

  /** @param what describes the violation; called only if there is one */
  check(promise: string, where: string, holds: boolean, what: () => unknown): void {
    this.checked.set(promise, (this.checked.get(promise) ?? 0) + 1);
    if (holds) return;
    const said = what();
    this.violations.push({ promise, where, what: typeof said === 'string' ? said : JSON.stringify(said) });
  }
}
