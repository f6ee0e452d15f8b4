import { z } from 'zod';
import { column, type Db } from './db.ts';

/** The id of this database's installation, a UUID that its migration created. */
export async function installationId(db: Db): Promise<string> {
  const [id] = await column(db, z.uuid(), 'SELECT id FROM installation');
  if (id === undefined) throw new Error('the table "installation" has no row');
  return id;
}
