import { z } from 'zod';
import { call, column, type Db } from './db.ts';
import { callClaimed, type Claim } from './runs.ts';

/** Stores a prompt of a session; each section is stored once for all sessions. Does nothing for an erased session. */
export async function keepPrompt(
  db: Db,
  sessionId: string,
  prompt: { digest: string; sections: readonly string[] },
): Promise<void> {
  await call(db, z.boolean(), 'keep_prompt', [sessionId, prompt.digest, prompt.sections]);
}

/**
 * Stores the prompt of a turn, unless an earlier attempt has stored one. Returns the digest of the one that holds; null:
 * another attempt has the run, or the session has been erased.
 */
export function keepTurnPrompt(
  db: Db,
  claim: Claim,
  { digest, sections }: { digest: string; sections: readonly string[] },
): Promise<string | null> {
  return callClaimed(db, z.string().nullable(), 'keep_turn_prompt', claim, [digest, sections]);
}

const SECTIONS = `
  ARRAY(SELECT s.body FROM unnest(p.sections) WITH ORDINALITY AS listed(digest, n)
          JOIN prompt_sections s USING (digest) ORDER BY n)`;

/** The sections of a session's prompt, in order; undefined: it is not stored. */
export async function readPrompt(db: Db, sessionId: string, digest: string): Promise<string[] | undefined> {
  const sql = `SELECT ${SECTIONS} FROM system_prompts p WHERE p.session_id = $1 AND p.digest = decode($2, 'hex')`;
  const [sections] = await column(db, z.array(z.string()), sql, [sessionId, digest]);
  return sections;
}

/** The sections of a prompt of any of a user's sessions, in order; undefined: none of them has it. */
export async function readPromptOfUser(db: Db, userId: string, digest: string): Promise<string[] | undefined> {
  const sql = `
    SELECT ${SECTIONS}
      FROM sessions of_user JOIN system_prompts p USING (session_id)
     WHERE of_user.user_id = $1 AND p.digest = decode($2, 'hex') LIMIT 1`;
  const [sections] = await column(db, z.array(z.string()), sql, [userId, digest]);
  return sections;
}
