import { z } from 'zod';
import { column, type Db } from './db.ts';

/** Whether this Postgres refuses writes: it is a standby, or `default_transaction_read_only` is on. */
export async function isReadOnly(db: Db): Promise<boolean> {
  const [isOn] = await column(db, z.boolean(), `SELECT current_setting('transaction_read_only')::boolean`);
  return isOn === true;
}
