import type { ReactNode } from 'react';

/** The console's address with these parameters. */
export function consoleAddress(parameters: Record<string, string>): string {
  const query = new URLSearchParams(parameters).toString();
  return query === '' ? '/console' : `/console?${query}`;
}

export function ConsoleLink({ id, children }: { id: string; children?: ReactNode }) {
  return <a href={consoleAddress({ session: id })}>{children ?? id}</a>;
}
