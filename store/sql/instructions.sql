-- Instruction files that tools wrote, which do not enter prompts (agent/prompt/instructions.ts). A file's path is relative to the
-- folder of workspaces; its stamp, "inode:size:modified:changed" with times in nanoseconds, changes with every write or move.

-- Stores which instruction files a tool finds. `p_watch` is null or { root, before }: the workspace's folder, relative to
-- that of all, and { path: stamp }. A repeat of the call keeps what the first attempt found.
CREATE OR REPLACE FUNCTION watch_instructions(p_session text, p_call text, p_watch jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF p_watch IS NULL THEN RETURN; END IF;
  INSERT INTO watched_instructions (session_id, tool_call_id, root, before)
  VALUES (p_session, p_call, p_watch ->> 'root', p_watch -> 'before') ON CONFLICT DO NOTHING;
  INSERT INTO tool_workspaces (root) VALUES (p_watch ->> 'root') ON CONFLICT DO NOTHING;
END $$;

-- Stores the instruction files that differ from what the call's first attempt found. `p_changes` is null or { root, before,
-- after, over, user_id, home }; over: the tool has ended, otherwise it may still write. Of an erased session it only queues the
-- workspace, because the tool may have written there after its removal; `home` is the folder of the user's workspaces.
CREATE OR REPLACE FUNCTION note_written(p_session text, p_call text, p_changes jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_before jsonb := coalesce((
    SELECT before FROM watched_instructions WHERE session_id = p_session AND tool_call_id = p_call), p_changes -> 'before');
BEGIN
  IF p_changes IS NULL THEN RETURN; END IF;
  PERFORM FROM chat_sessions WHERE session_id = p_session FOR KEY SHARE;
  IF NOT FOUND THEN
    PERFORM queue_left_files(p_session, p_changes ->> 'user_id', p_changes ->> 'home', p_changes ->> 'root');
    RETURN;
  END IF;
  INSERT INTO written_instructions (path)
  SELECT path FROM jsonb_each_text(v_before) AS before(path, stamp)
    FULL JOIN jsonb_each_text(p_changes -> 'after') AS after(path, stamp) USING (path)
   WHERE before.stamp IS DISTINCT FROM after.stamp
   ORDER BY path
  ON CONFLICT DO NOTHING;
  IF (p_changes ->> 'over')::boolean THEN
    DELETE FROM watched_instructions WHERE session_id = p_session AND tool_call_id = p_call;
  END IF;
END $$;

-- Of the instruction files { path: stamp } of a workspace those that tools wrote, also if the tool is still running, or its
-- worker was lost. Files in a folder of another workspace, whose tools could write them unseen, count as written unless they
-- are older than its first tool call. Inserts only what is new. One statement reads it all: note_written() may
-- move a path from watched to written meanwhile.
CREATE OR REPLACE FUNCTION instructions_of_tools(p_root text, p_found jsonb) RETURNS jsonb
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  v_written jsonb;
  v_new text[];
BEGIN
  SELECT coalesce(jsonb_agg(path), '[]'), coalesce(array_agg(path ORDER BY path) FILTER (WHERE NOT known), '{}')
    INTO v_written, v_new
    FROM (SELECT path, stamp, EXISTS (SELECT FROM written_instructions AS written WHERE written.path = found.path) AS known
            FROM jsonb_each_text(p_found) AS found(path, stamp)
          OFFSET 0) AS found
   WHERE known
      OR EXISTS (
        SELECT FROM watched_instructions AS watched
         WHERE starts_with(watched.root || '/', regexp_replace(found.path, '[^/]*$', ''))
           AND watched.before ->> found.path IS DISTINCT FROM found.stamp)
      OR EXISTS (
        SELECT FROM string_to_array(found.path, '/') AS names
         CROSS JOIN generate_series(1, cardinality(names) - 2) AS depth
          JOIN tool_workspaces AS above ON above.root = array_to_string(names[1:depth], '/')
         WHERE to_timestamp(split_part(found.stamp, ':', 4)::numeric / 1e9) > above.since - interval '1 minute');
  INSERT INTO written_instructions (path) SELECT unnest(v_new) ON CONFLICT DO NOTHING;
  -- Left by a tool whose end nobody saw.
  DELETE FROM watched_instructions WHERE root = p_root AND started_at < clock_timestamp() - interval '1 hour';
  RETURN v_written;
END $$;

-- Forgets what tools wrote in a folder that is removed.
CREATE OR REPLACE FUNCTION forget_written(p_folder text) RETURNS void LANGUAGE sql AS $$
  -- "0" is the character after "/".
  DELETE FROM written_instructions WHERE path >= p_folder || '/' AND path < p_folder || '0';
  DELETE FROM tool_workspaces WHERE root = p_folder OR root >= p_folder || '/' AND root < p_folder || '0';
$$;
