import { z } from 'zod';
import { type Db, maybeOne } from './db.ts';

const promptRow = z.object({ system: z.string() });

/** Keeps a prompt's text once a digest. */
export async function keepPrompt(
  db: Db,
  prompt: { digest: string; system: string; toolCatalog: string },
): Promise<void> {
  await db.query(
    'INSERT INTO system_prompts (digest, system, tool_catalog) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
    [prompt.digest, prompt.system, prompt.toolCatalog],
  );
}

/** The system text of a digest. */
export async function readPrompt(db: Db, digest: string): Promise<string | undefined> {
  const row = await maybeOne(db, promptRow, 'SELECT system FROM system_prompts WHERE digest = $1', [digest]);
  return row?.system;
}
