// Conversations whose texts are their ids.
import type pg from 'pg';
import { type Row, rows, Session, textPart } from './session.ts';

/** A session in which each text was answered; ids are the texts, and those of answers end with an exclamation mark. */
export async function conversation(db: pg.Pool, ...texts: string[]): Promise<Session> {
  const session = await Session.at('chatting', db);
  for (const text of texts) await told(session, text);
  return session;
}

/** Says a text and answers it. */
export async function told(session: Session, text: string): Promise<void> {
  const { run_seq } = (await session.say(text, { id: text })) as { run_seq: number };
  await answered(session, run_seq);
}

export async function answered(session: Session, run: number): Promise<string> {
  const { answer_id: answer } = (await session.claim(run, [0, run, 1])) as { answer_id: string };
  const part = { ...textPart(0, `answer ${run}`), settled: true };
  await session.settleStep(run, [0, run, 1], {
    parts: [part],
    end: true,
    usage: { input: run, output: 1 },
    tokens: run + 1,
  });
  return answer;
}

/** What the model and the reader see: user messages by id, answers as their text. */
export async function visible(session: Session): Promise<string[]> {
  const found = await rows(
    session.db,
    `SELECT CASE m.role WHEN 'user' THEN m.id ELSE p.data ->> 'text' END AS shown
       FROM chat_messages m JOIN chat_parts p ON p.session_id = m.session_id AND p.message_id = m.id
      WHERE m.session_id = $1 AND m.hidden_at IS NULL ORDER BY m.position`,
    [session.id],
  );
  return found.map((row) => row['shown'] as string);
}

/** Everything of a session but the times of the latest changes, as stored. */
export async function everything(session: Session): Promise<Row[]> {
  return rows(
    session.db,
    `SELECT m.id, m.position, m.role, m.metadata::text, m.hidden_at::text, m.created_at, p.parts::text
       FROM chat_messages m,
            LATERAL (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.index) AS parts FROM chat_parts p
                      WHERE p.session_id = m.session_id AND p.message_id = m.id) p
      WHERE m.session_id = $1 ORDER BY m.position`,
    [session.id],
  );
}
