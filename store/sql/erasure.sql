-- Erasure of sessions and users, and the queue of work outside of Postgres.

-- A user's session and its descendants.
CREATE OR REPLACE FUNCTION session_tree(p_session text, p_user text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
  WITH RECURSIVE tree AS (
    SELECT session_id FROM sessions WHERE session_id = p_session AND user_id = p_user
    UNION
    SELECT c.session_id FROM chat_sessions c JOIN tree ON c.parent_id = tree.session_id
  )
  SELECT session_id FROM tree
$$;

-- Queues a workflow to terminate and delete, or a folder below the folder of workspaces to remove; either may be null.
CREATE OR REPLACE FUNCTION queue_erasure(p_workflow text, p_folder text) RETURNS void LANGUAGE sql AS $$
  SELECT forget_written(p_folder) WHERE p_folder IS NOT NULL;
  INSERT INTO erasures (workflow_id, folder) VALUES (p_workflow, p_folder)
$$;

-- The folder of an initiative, relative to its user's folder of workspaces.
CREATE OR REPLACE FUNCTION initiative_folder(p_row initiatives, p_home text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT coalesce(split_part(p_row.workspace_root, '/' || p_home || '/', 2), p_row.project_id, p_row.initiative_id)
$$;

-- Whether a session, project or initiative of the user uses a folder, its parent or a subfolder. The folder is relative to `p_home`, the
-- user's folder of workspaces.
CREATE OR REPLACE FUNCTION folder_in_use(p_user text, p_home text, p_folder text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (
    SELECT FROM (
      SELECT coalesce(split_part(c.workspace_root, '/' || p_home || '/', 2), s.project_id, s.session_id) AS folder
        FROM sessions s JOIN chat_sessions c USING (session_id) WHERE s.user_id = p_user
      UNION ALL SELECT project_id FROM projects WHERE user_id = p_user
      UNION ALL SELECT initiative_folder(i, p_home) FROM initiatives i WHERE user_id = p_user) AS used
     WHERE starts_with(used.folder || '/', p_folder || '/') OR starts_with(p_folder || '/', used.folder || '/'))
$$;

-- Queues a folder in which something of an erased session has ended: it may have written there after the last removal. Does nothing
-- while the session exists. Keeps a folder outside of `p_home`, and one that others of the user use. The folder is relative to that
-- of workspaces.
CREATE OR REPLACE FUNCTION queue_left_files(p_session text, p_user text, p_home text, p_folder text) RETURNS void LANGUAGE sql AS $$
  SELECT queue_erasure(NULL, p_folder)
   WHERE NOT EXISTS (SELECT FROM chat_sessions WHERE session_id = p_session)
     AND starts_with(p_folder, p_home || '/') AND NOT folder_in_use(p_user, p_home, substr(p_folder, length(p_home) + 2))
$$;

-- Keeps a folder that a new session or initiative uses, its parents and what is below it: each that has been removed is not
-- removed again, and one that has not only once. `p_root` is absolute, or null.
CREATE OR REPLACE FUNCTION keep_folder(p_root text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_ids bigint[];
BEGIN
  IF p_root IS NULL THEN RETURN; END IF;
  v_ids := ARRAY(
    SELECT id FROM erasures
     WHERE position('/' || folder || '/' IN p_root || '/') > 0
        OR starts_with(folder || '/', substr(p_root, position('/' || split_part(folder, '/', 1) || '/' IN p_root) + 1) || '/'));
  DELETE FROM erasures WHERE id = ANY (v_ids) AND passes > 0;
  UPDATE erasures SET passes = 1 WHERE id = ANY (v_ids);
END $$;

-- Erases a session and its descendants. `p_home` is the user's folder, relative to the folder of workspaces. Returns the
-- erased sessions and their running runs, { sessions: [id], runs: [{ session_id, run_seq }] }; null: the user has no such
-- session. Keeps folders that other sessions of the user use, unless the whole user is being erased: that check reads all of
-- them. Locks the session first, like every command, then its runs, which waits for batches being appended.
CREATE OR REPLACE FUNCTION erase_session(p_session text, p_user text, p_home text, p_whole_user boolean) RETURNS jsonb
LANGUAGE plpgsql SET perdure.writer = 'erase' AS $$
DECLARE
  v_sessions text[];
  v_runs jsonb;
  v_sections bytea[];
  v_folders text[];
BEGIN
  PERFORM lock_session(p_session);
  v_sessions := ARRAY(SELECT session_tree(p_session, p_user) ORDER BY 1);
  IF v_sessions = '{}' THEN RETURN NULL; END IF;
  PERFORM lock_session(each) FROM unnest(v_sessions) AS each;
  -- Waits for indexers, which lock a row of the queue before the session's.
  DELETE FROM search_queue WHERE user_id = p_user AND session_id = ANY (v_sessions);
  WITH gone AS (DELETE FROM chat_runs WHERE session_id = ANY (v_sessions) RETURNING session_id, seq, state)
  SELECT coalesce(jsonb_agg(jsonb_build_object('session_id', session_id, 'run_seq', seq)), '[]') INTO v_runs
    FROM gone WHERE state = 'running';
  -- Waits for writers without the session lock. Not earlier: a batch locks its run before it locks this row.
  PERFORM FROM chat_sessions WHERE session_id = ANY (v_sessions) ORDER BY session_id FOR UPDATE;
  WITH gone AS (DELETE FROM system_prompts WHERE session_id = ANY (v_sessions) RETURNING sections)
  SELECT coalesce(array_agg(DISTINCT section), '{}') INTO v_sections FROM gone, unnest(sections) AS section;
  DELETE FROM work_log WHERE session_id = ANY (v_sessions);
  DELETE FROM replays WHERE session_id = ANY (v_sessions);
  DELETE FROM message_search WHERE session_id = ANY (v_sessions);
  DELETE FROM part_deltas WHERE session_id = ANY (v_sessions);
  DELETE FROM chat_parts WHERE session_id = ANY (v_sessions);
  DELETE FROM chat_messages WHERE session_id = ANY (v_sessions);
  PERFORM keep_scope_events(v_sessions);
  DELETE FROM session_events WHERE session_id = ANY (v_sessions);
  DELETE FROM session_aliases WHERE session_id = ANY (v_sessions);
  DELETE FROM scoped_state WHERE scope = 'session' AND owner = ANY (v_sessions);
  DELETE FROM tool_cache WHERE session_id = ANY (v_sessions);
  DELETE FROM cached_results WHERE scope = 'session' AND owner = ANY (v_sessions);
  DELETE FROM tool_outputs WHERE session_id = ANY (v_sessions);
  PERFORM drop_attachments(v_sessions);
  PERFORM erase_tasks(v_sessions);
  DELETE FROM watched_instructions WHERE session_id = ANY (v_sessions);
  v_folders := ARRAY(
    SELECT unnest(v_sessions)
    UNION SELECT split_part(workspace_root, '/' || p_home || '/', 2) FROM chat_sessions
           WHERE session_id = ANY (v_sessions) AND position('/' || p_home || '/' IN workspace_root) > 0);
  -- Late: commands of the initiatives that it worked on wait from here on.
  IF NOT p_whole_user THEN PERFORM forget_chats(v_sessions, p_user); END IF;
  DELETE FROM chat_sessions WHERE session_id = ANY (v_sessions);
  DELETE FROM sessions WHERE session_id = ANY (v_sessions);
  PERFORM queue_erasure(each, NULL) FROM unnest(v_sessions) AS each;
  PERFORM queue_erasure(NULL, p_home || '/' || folder) FROM unnest(v_folders) AS folder
    WHERE p_whole_user OR NOT folder_in_use(p_user, p_home, folder);
  -- Of every session: a snapshot may have been taken for an un-rewind only, or may still be being taken.
  PERFORM queue_erasure(NULL, p_home || '/.snapshots/' || each) FROM unnest(v_sessions) AS each;
  PERFORM drop_sections(v_sections);
  RETURN jsonb_build_object('sessions', v_sessions, 'runs', v_runs);
END $$;

-- Erases a user's initiatives, projects with their todos and folders, what is left of snapshots, and `user:` state with its
-- events.
CREATE OR REPLACE FUNCTION erase_user_rest(p_user text, p_home text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM queue_erasure(NULL, p_home || '/' || initiative_folder(i, p_home)) FROM initiatives i WHERE user_id = p_user;
  PERFORM erase_initiatives(p_user);
  DELETE FROM project_todos USING projects p WHERE project_todos.project_id = p.project_id AND p.user_id = p_user;
  DELETE FROM project_permissions r USING projects p WHERE r.project_id = p.project_id AND p.user_id = p_user;
  PERFORM queue_erasure(NULL, p_home || '/' || project_id) FROM projects WHERE user_id = p_user;
  PERFORM queue_erasure(NULL, p_home || '/.snapshots');
  DELETE FROM projects WHERE user_id = p_user;
  DELETE FROM scoped_state WHERE scope = 'user' AND owner = p_user;
  PERFORM forget_written(p_home);
  DELETE FROM cached_results WHERE scope = 'user' AND owner = p_user;
  UPDATE scope_events
     SET user_id = NULL, author = NULL, data = jsonb_build_object(
           'set', (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(data -> 'set') WHERE key LIKE 'app:%'),
           'deleted', (SELECT coalesce(jsonb_agg(name), '[]') FROM jsonb_array_elements_text(data -> 'deleted') AS name
                        WHERE name LIKE 'app:%'))
   WHERE user_id = p_user;
  -- Rows from before every row had its user.
  UPDATE scope_events SET author = NULL WHERE user_id IS NULL AND author = p_user;
END $$;

-- Claims due work for a minute; if the worker dies, another one claims it then.
CREATE OR REPLACE FUNCTION claim_erasures(p_limit integer) RETURNS jsonb LANGUAGE sql AS $$
  WITH claimed AS (
    UPDATE erasures SET passes = passes + 1, due_at = clock_timestamp() + interval '1 minute'
     WHERE id IN (SELECT id FROM erasures WHERE due_at <= now()
                   ORDER BY due_at LIMIT p_limit FOR UPDATE SKIP LOCKED)
    RETURNING id, workflow_id, folder, passes
  )
  SELECT coalesce(jsonb_agg(to_jsonb(claimed)), '[]') FROM claimed
$$;
