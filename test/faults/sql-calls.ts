import type pg from 'pg';

/** A call of one of our SQL functions, as the store makes it. */
export interface SqlCall {
  name: string;
  args: readonly unknown[];
}

/** What to do around calls. What `before` waits for delays the call; what `after` waits for delays its answer. */
export interface Around {
  before?(call: SqlCall): unknown;
  after?(call: SqlCall): unknown;
}

const PREFIX = 'call ';

/** Lets a test stand between an activity and the database: every call of an SQL function is a transaction. */
export function aroundCalls(db: pg.Pool, around: Around): Disposable {
  const plain = db.query.bind(db) as (...args: unknown[]) => Promise<unknown>;
  const query = async (...given: unknown[]): Promise<unknown> => {
    const { name = '', values = [] } = given[0] as { name?: string; values?: unknown[] };
    if (!name.startsWith(PREFIX)) return plain(...given);
    const call = { name: name.slice(PREFIX.length), args: values };
    await around.before?.(call);
    const answer = await plain(...given);
    await around.after?.(call);
    return answer;
  };
  db.query = query as typeof db.query;
  return { [Symbol.dispose]: () => void (db.query = plain as typeof db.query) };
}
