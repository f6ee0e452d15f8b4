import { changedStamps, type Stamps } from './instructions.ts';

/** The instruction files that the tools of a session in memory wrote, also those that are still running. */
export class WrittenInstructions {
  private readonly written = new Set<string>();
  private readonly running = new Set<Stamps>();

  /** A tool begins. Call the returned function with the stamps when it has ended. */
  begin(before: Stamps): (after: Stamps) => void {
    this.running.add(before);
    return (after) => {
      this.running.delete(before);
      for (const name of changedStamps(before, after)) this.written.add(name);
    };
  }

  /** Of these files those that tools wrote. */
  of(found: Stamps): ReadonlySet<string> {
    const names = Object.keys(found);
    for (const before of this.running) {
      for (const name of names) if (before[name] !== found[name]) this.written.add(name);
    }
    return new Set(names.filter((name) => this.written.has(name)));
  }
}
