import type pg from 'pg';

/** A call of one of our SQL functions by the store. */
export interface SqlCall {
  name: string;
  args: readonly unknown[];
}

/** Hooks of calls. A promise of `before` delays the call; a promise of `after` delays its result. */
export interface Around {
  before?(call: SqlCall): unknown;
  after?(call: SqlCall): unknown;
}

/** The sessions of a call: `append_streams` has several. */
export function sessionsOf({ args: [session] }: SqlCall): string[] {
  return [session].flat().map(String);
}

/** The name of the prepared statement of a call. */
const CALL = /^call (\w+)/;
const around = new WeakMap<pg.Pool, Set<Around>>();

/** Hooks into all calls of SQL functions through a pool; each call is a transaction. */
export function aroundCalls(db: pg.Pool, what: Around): Disposable {
  const those = around.get(db) ?? wrap(db);
  those.add(what);
  return { [Symbol.dispose]: () => void those.delete(what) };
}

function wrap(db: pg.Pool): Set<Around> {
  const those = new Set<Around>();
  around.set(db, those);
  const plain = db.query.bind(db) as (...args: unknown[]) => Promise<unknown>;
  const query = async (...given: unknown[]): Promise<unknown> => {
    const { name = '', values = [] } = given[0] as { name?: string; values?: unknown[] };
    const called = CALL.exec(name)?.[1];
    if (called === undefined) return plain(...given);
    const call = { name: called, args: values };
    for (const each of [...those]) await each.before?.(call);
    const answer = await plain(...given);
    for (const each of [...those]) await each.after?.(call);
    return answer;
  };
  db.query = query as typeof db.query;
  return those;
}
