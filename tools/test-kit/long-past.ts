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
