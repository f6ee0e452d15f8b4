import type { ConsoleReading } from './use-console.ts';

/** Why something was not read, or that it is being read, with a button that reads it again. */
export function ReadingNote({ of, what }: { of: ConsoleReading<unknown>; what: string }) {
  if (of.problem === undefined) return of.data === undefined ? <p className="faint">Reading {what}…</p> : null;
  return (
    <p role="alert" className="problem">
      {of.problem}{' '}
      <button type="button" onClick={of.again}>
        Try again
      </button>
    </p>
  );
}
