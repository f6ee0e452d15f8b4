import { z } from 'zod';
import { call, column, type Db } from './db.ts';

/** Stores a prompt of a session; each section is stored once for all sessions. Does nothing for an erased session. */
export async function keepPrompt(
  db: Db,
  sessionId: string,
  prompt: { digest: string; sections: readonly string[] },
): Promise<void> {
  await call(db, z.boolean(), 'keep_prompt', [sessionId, prompt.digest, prompt.sections]);
}

/** The sections of a session's prompt, in order; undefined: it is not stored. */
export async function readPrompt(db: Db, sessionId: string, digest: string): Promise<string[] | undefined> {
  const [sections] = await column(
    db,
    z.array(z.string()),
    `SELECT ARRAY(SELECT s.body FROM unnest(p.sections) WITH ORDINALITY AS listed(digest, n)
                    JOIN prompt_sections s USING (digest) ORDER BY n)
       FROM system_prompts p WHERE p.session_id = $1 AND p.digest = decode($2, 'hex')`,
    [sessionId, digest],
  );
  return sections;
}
