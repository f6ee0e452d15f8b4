// Negative controls: promises broken on purpose, to show that a campaign detects it. The product is not changed:
// functions of the campaign's database are replaced by weaker ones, or its workers use another entry.
import path from 'node:path';
import type pg from 'pg';
import type { Break } from './options.ts';
import type { WorldOptions } from './world.ts';

/** The changes that a break makes to the system. */
export function breakOf(name: Break | undefined): Pick<WorldOptions, 'prepare' | 'workerEntry'> {
  switch (name) {
    case undefined:
      return {};
    case 'fence':
      return { prepare: dropFence };
    case 'receipt':
      return { prepare: dropReceipts };
    case 'state':
      return { prepare: dropStateRules };
    case 'publish':
      return { workerEntry: path.join(import.meta.dirname, 'hasty-main.ts') };
    case 'task':
    case 'supervisor':
    case 'state-file':
      return { prepare: (db) => INITIATIVE_BREAKS[name](db) };
    default:
      return { prepare: (db) => CONVERSATION_BREAKS[name](db) };
  }
}

/** Writes no longer check the fence. */
async function dropFence(db: pg.Pool): Promise<void> {
  await weaken(db, 'append_streams', 'AND r.fence = batch.fence::integer[]', '');
  await weaken(db, 'settle_step', 'AND fence = p_fence', '');
  await weaken(db, 'finish_tool', 'AND fence = p_fence', '');
}

/** Neither commands nor tool calls find their recorded outcome. */
async function dropReceipts(db: pg.Pool): Promise<void> {
  const known = 'EXISTS (SELECT FROM session_events WHERE session_id = p_session AND command_id = p_command_id)';
  await weaken(db, 'begin_command', 'AND command_id = p_command_id', 'AND false');
  await weaken(db, 'append_event', 'p_data, p_command_id', `p_data, CASE WHEN NOT ${known} THEN p_command_id END`);
  await weaken(db, 'begin_tool', "v_state.pending_tool ->> 'tool_call_id' = v_call", 'false');
}

/**
 * What a tool adds to state is added twice, its event leaves a key out, and `temp:` values stay. A stale writer overwrites what
 * others have set, and deletions of keys that are not there are logged.
 */
async function dropStateRules(db: pg.Pool): Promise<void> {
  // Increments only: the versions of keys that the tool has read would refuse anything else.
  const added = `jsonb_path_query_array(p_changes, '$[*] ? (exists (@.increment))')`;
  const change = 'v_done := change_states(v_app, p_session, v_user, p_changes);';
  const first = `PERFORM change_states(v_app, p_session, v_user, ${added});`;
  await weaken(db, 'commit_tool_state', change, `${first} ${change}`);
  await weaken(db, 'log_state', "'set', p_done -> 'set'", "'set', (p_done -> 'set') - 'last'");
  await weaken(db, 'log_state', "p_done -> 'removed'", "p_done -> 'deleted'");
  await weaken(db, 'change_state', '(v_seen IS NULL OR stored.version = v_seen)', 'true');
  await weaken(db, 'close_run', 'temp = NULL', 'temp = temp');
}

/** Breaks of what changes a conversation. */
const CONVERSATION_BREAKS = {
  /** Going back hides the message that it goes back to, too, and no answers. */
  rewind: (db) =>
    weaken(
      db,
      'hide_after',
      'position > p_position AND hidden_at',
      `position >= p_position AND role = 'user' AND hidden_at`,
    ),
  /** Going forth shows no answers. */
  unrewind: (db) => weaken(db, 'show_after', 'position > p_position AND hidden_at', `role = 'user' AND hidden_at`),
  /** A request to replace an answer replaces the newest one each time. */
  regenerate: (db) => weaken(db, 'regenerate_answer', 'OR v_run.answer_id <> p_replaced AND', 'OR false AND'),
  /** A compaction leaves the answers that it summarizes visible. */
  compaction: (db) =>
    weaken(
      db,
      'store_compaction',
      'position < v_position AND hidden_at',
      `role = 'user' AND position < v_position AND hidden_at`,
    ),
  /** A prune leaves no event. */
  prune: (db) => weaken(db, 'put_prune', 'PERFORM append_event', 'PERFORM format'),
  /** What a summary costs is in no sum, and in no step; a run counts its last step only. */
  sums: async (db) => {
    await weaken(db, 'store_compaction', 'PERFORM add_to_sums', 'PERFORM format');
    await weaken(db, 'put_synthetic', `p_made -> 'metadata'`, `(p_made -> 'metadata') - 'steps'`);
    await weaken(db, 'settle_step', 'tokens = tokens + (', 'tokens = (');
  },
  /** A branch ends one message early, and gets answers without their parts. */
  branch: async (db) => {
    await weaken(db, 'cmd_branch', 'v_from, v_target.position, v_copy', 'v_from, v_target.position - 1, v_copy');
    const ofUsers = `(SELECT id FROM chat_messages WHERE session_id = p_session AND role = 'user')`;
    await weaken(
      db,
      'copy_messages',
      'p.message_id = ANY (v_ids)',
      `p.message_id = ANY (v_ids) AND p.message_id IN ${ofUsers}`,
    );
  },
  /** Every session gets every file, whose last byte is another one. */
  attachment: async (db) => {
    const columns = `session_id, p_attachment, p_content, decode(p_digest, 'hex'), p_media_type, p_filename, p_size`;
    const all = `INSERT INTO attachments SELECT ${columns} FROM chat_sessions ON CONFLICT DO NOTHING;`;
    await weaken(db, 'attach', 'RETURN (', `${all} RETURN (`);
    await db.query(`CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN NEW.bytes := set_byte(NEW.bytes, length(NEW.bytes) - 1, 0); RETURN NEW; END'`);
    await db.query('CREATE TRIGGER spoil BEFORE INSERT ON attachment_chunks FOR EACH ROW EXECUTE FUNCTION spoil()');
  },
  /** A call that is denied begins. */
  denial: (db) => weaken(db, 'begin_tool', "v_permission ->> 'action' = 'deny'", 'false'),
  /** A call that asks begins at once. */
  approval: (db) => weaken(db, 'begin_tool', "v_permission ->> 'action' = 'ask'", 'false'),
  /** An abort does not end the children. */
  child: (db) => weaken(db, 'abort_children', 'IF NOT has_open_tasks(p_session) THEN', 'IF true THEN'),
} satisfies Partial<Record<Break, (db: pg.Pool) => Promise<void>>>;

/** Breaks of initiatives. */
const INITIATIVE_BREAKS = {
  /** A task that is held is given to others, too, and each of them completes it. */
  task: async (db) => {
    await weaken(db, 'ini_assign_task', `status = 'open' AND assigned_to IS NULL`, `status = 'open'`);
    await weaken(db, 'held_task', `WHEN task.assigned_to IS DISTINCT FROM p_args ->> 'work_session'`, 'WHEN false');
    await weaken(db, 'ini_complete_task', `next_status('task', v_task.status, 'complete') IS NULL`, 'false');
  },
  /** A work session may be silent for ten minutes longer than the setting says. */
  supervisor: (db) =>
    weaken(db, 'watched_sessions', 'p_progress_ms / 1000.0)', `p_progress_ms / 1000.0) + interval '10 minutes'`),
  /** A decision makes no version of its own. */
  'state-file': (db) =>
    weaken(db, 'run_initiative_command', `'report_progress', `, `'report_progress', 'add_decision', `),
} satisfies Partial<Record<Break, (db: pg.Pool) => Promise<void>>>;

/** Replaces one expression in a function. */
async function weaken(db: pg.Pool, name: string, words: string, others: string): Promise<void> {
  const { rows } = await db.query<{ text: string }>(`SELECT pg_get_functiondef($1::regproc) AS text`, [name]);
  const { text } = rows[0]!;
  if (text.split(words).length !== 2)
    throw new Error(`${name}() was expected to contain "${words}" once: adapt this break to the function`);
  await db.query(text.replace(words, () => others));
}
