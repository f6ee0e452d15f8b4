/** A promise that did not hold, with what is needed to find it. */
export interface Violation {
  promise: string;
  where: string;
  what: string;
}

/** Counts what was checked, promise by promise, and keeps what did not hold. */
export class Ledger {
  readonly checked = new Map<string, number>();
  readonly violations: Violation[] = [];

  /** @param what says what is wrong; called only where it is */
  check(promise: string, where: string, holds: boolean, what: () => unknown): void {
    this.checked.set(promise, (this.checked.get(promise) ?? 0) + 1);
    if (holds) return;
    const said = what();
    this.violations.push({ promise, where, what: typeof said === 'string' ? said : JSON.stringify(said) });
  }
}
