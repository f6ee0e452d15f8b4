import type { ReactNode } from 'react';

interface Props<T> {
  /** Undefined: not read yet. */
  value: T | undefined;
  /** Why it could not be read, or not again: what was read before stays below. */
  notice: string | undefined;
  children: (value: T) => ReactNode;
}

/** What a panel knows, and perhaps why that may be out of date. */
export function Known<T>({ value, notice, children }: Props<T>) {
  return (
    <>
      {notice !== undefined && (
        <p className="note" role="alert">
          {notice}
        </p>
      )}
      {value === undefined && notice === undefined && <p className="note">Loading…</p>}
      {value !== undefined && children(value)}
    </>
  );
}
