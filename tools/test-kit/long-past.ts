import pg from 'pg';

/** Turns from number `from` (default 1) to number `to`. */
interface Turns {
  from?: number;
  to: number;
  /** Turns up to this number are hidden by a compaction after them; none by default. */
  hidden?: number;
  /** The text of a message as SQL, in which `n` is the number of its turn; the same one by default. */
  text?: (role: 'user' | 'assistant') => string;
  /** What the answers have: a text (the default), or the call of a tool. Turns with tools have an event each as well. */
  answers?: 'text' | 'tool';
}

/**
 * Inserts finished turns into sessions, as the functions would have stored them: messages `u1`, `a1`, `u2`, `a2`, … with one
 * part each. Much faster than having them answered.
 */
export async function insertPast(client: pg.ClientBase, sessions: readonly string[], turns: Turns): Promise<void> {
  const { from = 1, to, hidden = 0, text = () => `'some text'`, answers = 'text' } = turns;
  const insert = (into: string, values: string) =>
    client.query(
      `INSERT INTO ${into} SELECT ${values}
         FROM unnest($1::text[]) AS s CROSS JOIN generate_series($2::integer, $3::integer) AS n`,
      [sessions, from, to],
    );
  const metadata = `CASE WHEN n <= ${hidden} THEN '{"hidden_by": {"cause": "compaction", "id": "u${hidden + 1}"}}'::jsonb ELSE '{}' END`;
  for (const [letter, role, add] of [
    ['u', 'user', 0],
    ['a', 'assistant', 1],
  ] as const) {
    await insert(
      'chat_messages (session_id, id, position, role, metadata, hidden_at)',
      `s, '${letter}' || n, n * 1000 + ${add}, '${role}', ${metadata}, CASE WHEN n <= ${hidden} THEN now() END`,
    );
    if (role === 'assistant' && answers === 'tool') continue;
    await insert(
      'chat_parts (session_id, id, message_id, index, type, data)',
      `s, '${letter}p' || n, '${letter}' || n, 0, 'text', jsonb_build_object('type', 'text', 'text', ${text(role)})`,
    );
  }
  await insert(
    'chat_runs (session_id, seq, message_id, answer_id, state, finished_at)',
    `s, n, 'u' || n, 'a' || n, 'finished', now()`,
  );
  if (answers === 'text') return;
  await insert(
    'chat_parts (session_id, id, message_id, index, type, data, tool_call_id, tool_state)',
    `s, 'ap' || n, 'a' || n, 0, 'tool-x', '{"type": "tool-x"}', 'call' || n, 'output-available'`,
  );
  await insert('session_events (session_id, seq, kind, actor, command_id)', `s, n + 1, 'abort', 'user', 'past:' || n`);
}

/** Compactions of a past: one after each `every` turns, as long as at least `tail` turns stay. */
export interface Compactions {
  turns: number;
  every: number;
  tail: number;
}

/** Compacts a past of `insertPast`: each summary, `c1`, `c2`, …, hides all that is visible before it, the summary before it too. */
export async function compactPast(client: pg.ClientBase, session: string, past: Compactions): Promise<void> {
  const { turns, every, tail } = past;
  const args = [session, every, Math.floor((turns - tail) / every)];
  await client.query(
    `WITH summaries AS (
       INSERT INTO chat_messages (session_id, id, position, role)
       SELECT $1, 'c' || n, n * $2::integer * 1000 + 2, 'assistant' FROM generate_series(1, $3::integer) AS n
       RETURNING id, (position / 1000)::integer AS turn)
     INSERT INTO chat_parts (session_id, id, message_id, index, type, data)
     SELECT $1, 'p' || id, id, 0, 'data-compaction', jsonb_build_object('type', 'data-compaction', 'data',
              jsonb_build_object('summary', 'They talked.', 'tail_start_id', 'u' || turn + 1, 'auto', true, 'summary_tokens', 3,
              'turns', turn))
       FROM summaries`,
    args,
  );
  await client.query(
    `UPDATE chat_messages m
        SET hidden_at = now(), metadata = metadata || jsonb_build_object('hidden_by', jsonb_build_object(
              'cause', 'compaction', 'id', 'c' || n))
       FROM generate_series(1, $3::integer) AS n
      WHERE session_id = $1 AND position >= (n - 1) * $2::integer * 1000 + 2 AND position < n * $2::integer * 1000 + 2`,
    args,
  );
}

/** Gives each answer of a past the call of a tool and another text. */
export async function lengthenAnswers(client: pg.ClientBase, session: string): Promise<void> {
  await client.query(
    `INSERT INTO chat_parts (session_id, id, message_id, index, type, data, tool_call_id, tool_state)
     SELECT $1, id || more.index, id, more.index, data ->> 'type', data, call, state
       FROM chat_messages,
            LATERAL (VALUES (1, jsonb_build_object('type', 'tool-x', 'toolCallId', 'call' || id, 'state', 'output-available',
                                                   'input', '{}'::jsonb, 'output', 'a few words'), 'call' || id, 'output-available'),
                            (2, '{"type": "text", "text": "some more text"}', NULL, NULL)) AS more(index, data, call, state)
      WHERE session_id = $1 AND role = 'assistant'`,
    [session],
  );
}

/** Makes the messages of a session found by the searches of its user. */
export async function indexPast(client: pg.ClientBase, session: string, user: string): Promise<void> {
  await client.query(
    'SELECT index_text($2, m, message_text(m.session_id, m.id)) FROM chat_messages m WHERE session_id = $1',
    [session, user],
  );
}

/** Calls `work` with a connection that has none of the product's time-outs: on a busy machine large inserts take longer. */
export async function patiently<T>(db: pg.Pool, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: db.options.connectionString! });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
