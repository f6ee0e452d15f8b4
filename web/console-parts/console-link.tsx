import type { ReactNode } from 'react';

/** The console's address with these parameters. */
export function addressOf(parameters: Record<string, string>): string {
  const query = new URLSearchParams(parameters).toString();
  return query === '' ? '/console' : `/console?${query}`;
}

export function SessionLink({ id, children }: { id: string; children?: ReactNode }) {
  return <a href={addressOf({ session: id })}>{children ?? id}</a>;
}
