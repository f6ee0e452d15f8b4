-- Snapshots of a session's files, by a hook of the worker. A message has the id of the one that was taken when its turn began. What
-- goes back in the conversation asks for it here, in its own transaction; a worker restores it, at the latest when the next turn
-- begins. chat_sessions.restore is { n, to, rewind, asked_at, claimed_at, claimed_for }: `n` names this request, `to` is a snapshot, and
-- `rewind` the number of the rewind before which another one is to be taken, for its un-rewind. `claimed_for` is the `n` that a worker
-- has claimed: while it restores that, this request may have replaced it, and waits.

-- Asks for the files of a snapshot; null: nothing is asked for. What this replaces is not restored any more, so the un-rewind of
-- `p_rewind`, the newest one, goes back to that.
CREATE OR REPLACE FUNCTION ask_restore(p_session text, p_snapshot text, p_rewind bigint) RETURNS void LANGUAGE sql AS $$
  UPDATE chat_sessions
     SET rewinds = CASE WHEN restore IS NOT NULL AND p_rewind IS NOT NULL
                        THEN jsonb_set(rewinds, '{-1,snapshot}', restore -> 'to') ELSE rewinds END,
         restore = jsonb_build_object(
           'n', gen_random_uuid(), 'to', p_snapshot,
           'rewind', CASE WHEN restore IS NULL THEN p_rewind ELSE (restore ->> 'rewind')::bigint END,
           'asked_at', clock_timestamp(), 'claimed_at', restore -> 'claimed_at', 'claimed_for', restore -> 'claimed_for')
   WHERE session_id = p_session AND p_snapshot IS NOT NULL
$$;

-- The same for a rewind that is undone. If its files have not been restored yet, they are as they were; a worker that takes their
-- snapshot now finds that nothing is asked for any more.
CREATE OR REPLACE FUNCTION ask_restore_undone(p_session text, p_rewind jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_sessions SET restore = NULL
   WHERE session_id = p_session AND restore -> 'rewind' = p_rewind -> 'event_seq' AND NOT p_rewind ? 'snapshot';
  PERFORM ask_restore(p_session, p_rewind ->> 'snapshot', NULL);
END $$;

-- The stack of rewinds that can be undone, or can be again once the queued message that has replaced something is taken back.
CREATE OR REPLACE FUNCTION rewinds_to_undo(p_session text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN coalesce(
    (SELECT rewinds FROM chat_sessions WHERE session_id = p_session),
    (SELECT replaced -> 'rewinds' FROM chat_runs
      WHERE session_id = p_session AND state = 'queued' AND replaced -> 'rewinds' <> 'null'));
END $$;

-- Claims what is asked for, for 30 s: { n, to, rewind, take, user_id, project_id, workspace_root, made_project }. `take`: first a
-- snapshot is to be taken for the un-rewind. `made_project`: by the session itself. Null: nothing is asked for; { "busy": true }: another
-- worker restores files, or a tool has not ended yet: one of an aborted run, or of another session that works in the folder
-- `p_root`, in one above it or below it. For such a tool it waits for 10 s: that of a lost worker never ends. The table of tools
-- in progress is small, and is read as a whole. Null as `p_root`: only the session's own tools count.
CREATE OR REPLACE FUNCTION begin_restore(p_session text, p_root text DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
BEGIN
  IF v_chat.restore IS NULL THEN
    RETURN NULL;
  ELSIF (v_chat.restore ->> 'claimed_at')::timestamptz > clock_timestamp() - interval '30 seconds'
     OR (v_chat.restore ->> 'asked_at')::timestamptz > clock_timestamp() - interval '10 seconds'
        AND EXISTS (
          SELECT FROM watched_instructions
           WHERE session_id = p_session OR starts_with(root || '/', p_root || '/') OR starts_with(p_root || '/', root || '/')) THEN
    RETURN '{"busy": true}';
  END IF;
  UPDATE chat_sessions
     SET restore = restore || jsonb_build_object('claimed_at', clock_timestamp(), 'claimed_for', restore -> 'n')
   WHERE session_id = p_session;
  RETURN v_chat.restore || (
    SELECT jsonb_build_object(
             'user_id', user_id, 'project_id', project_id, 'workspace_root', v_chat.workspace_root,
             'made_project', project_id IS NOT NULL AND EXISTS (
               SELECT FROM session_events
                WHERE session_id = p_session AND kind = 'transition' AND actor = 'tool' AND data ? 'project_id'),
             'take', EXISTS (
               SELECT FROM jsonb_array_elements(rewinds_to_undo(p_session)) AS rewind
                WHERE rewind -> 'event_seq' = v_chat.restore -> 'rewind' AND NOT rewind ? 'snapshot'))
      FROM sessions WHERE session_id = p_session);
END $$;

-- Keeps the snapshot that was taken before a rewind's files were restored, also if the message after the rewind is queued already:
-- that can be taken back.
CREATE OR REPLACE FUNCTION note_rewound(p_session text, p_rewind bigint, p_snapshot text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_rewinds jsonb;
BEGIN
  PERFORM lock_session(p_session);
  SELECT jsonb_agg(CASE WHEN rewind ->> 'event_seq' = p_rewind::text
                        THEN rewind || jsonb_build_object('snapshot', p_snapshot) ELSE rewind END ORDER BY n) INTO v_rewinds
    FROM jsonb_array_elements(rewinds_to_undo(p_session)) WITH ORDINALITY AS stack(rewind, n);
  UPDATE chat_sessions SET rewinds = v_rewinds WHERE session_id = p_session AND rewinds IS NOT NULL;
  IF NOT FOUND THEN
    UPDATE chat_runs SET replaced = replaced || jsonb_build_object('rewinds', v_rewinds)
     WHERE session_id = p_session AND state = 'queued' AND replaced -> 'rewinds' <> 'null';
  END IF;
END $$;

-- Ends a request that is done or not to be carried out, or gives its claim back, also if another request has replaced it: false then.
CREATE OR REPLACE FUNCTION end_restore(p_session text, p_n text, p_is_over boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_restore jsonb := (lock_session(p_session)).restore;
BEGIN
  UPDATE chat_sessions
     SET restore = CASE WHEN NOT p_is_over OR restore ->> 'n' <> p_n THEN restore - 'claimed_at' - 'claimed_for' END
   WHERE session_id = p_session AND p_n IN (restore ->> 'n', restore ->> 'claimed_for');
  RETURN v_restore ->> 'n' IS NOT DISTINCT FROM p_n;
END $$;

-- Ends a request whose snapshot cannot be restored, as end_restore. Its message has no snapshot any more: when it is answered again,
-- the files stay as they are.
CREATE OR REPLACE FUNCTION give_up_restore(p_session text, p_n text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_restore jsonb := (lock_session(p_session)).restore;
BEGIN
  UPDATE chat_messages SET metadata = metadata - 'snapshot_id', updated_at = clock_timestamp()
   WHERE session_id = p_session AND metadata ->> 'snapshot_id' = v_restore ->> 'to' AND v_restore ->> 'n' = p_n;
  RETURN end_restore(p_session, p_n, true);
END $$;

-- Whether a message has no snapshot yet.
CREATE OR REPLACE FUNCTION lacks_snapshot(p_session text, p_message text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM chat_messages WHERE session_id = p_session AND id = p_message AND NOT metadata ? 'snapshot_id')
$$;

CREATE OR REPLACE FUNCTION note_snapshot(p_session text, p_message text, p_snapshot text) RETURNS void LANGUAGE sql AS $$
  UPDATE chat_messages
     SET metadata = metadata || jsonb_build_object('snapshot_id', p_snapshot), updated_at = clock_timestamp()
   WHERE session_id = p_session AND id = p_message AND NOT metadata ? 'snapshot_id'
$$;
