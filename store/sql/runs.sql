-- Claiming, aborting and ending runs. A claim needs a greater fence (epoch, ordinal, attempt) than the run has; every later
-- write passes that fence, and after a claim with a greater one it changes nothing and returns "lost".

-- The run in flight, else the first queued one unless an error paused the queue. Null: the session is idle.
CREATE OR REPLACE FUNCTION head_run(p_session text) RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (
    SELECT r.seq
      FROM chat_runs r JOIN chat_sessions c USING (session_id)
     WHERE r.session_id = p_session
       AND r.state IN ('queued', 'running', 'waiting')
       AND (r.state <> 'queued' OR c.paused_at IS NULL)
     ORDER BY r.state = 'queued', r.seq
     LIMIT 1);
END $$;

-- Whether a session has a queued or active run.
CREATE OR REPLACE FUNCTION has_open_run(p_session text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM chat_runs WHERE session_id = p_session AND state IN ('queued', 'running', 'waiting'))
$$;

-- Marks head_run() as to be aborted and returns it. Null: the session is idle, or the run is a later one than p_last.
CREATE OR REPLACE FUNCTION request_abort(p_session text, p_last integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  v_run integer := head_run(p_session);
BEGIN
  IF v_run > p_last THEN RETURN NULL; END IF;
  UPDATE chat_runs
     SET abort_requested_at = coalesce(abort_requested_at, clock_timestamp()), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = v_run;
  RETURN v_run;
END $$;

-- Whether a head start (a fence with attempt 0) is in progress, has no activity yet, and was alive within the last 2 s.
CREATE OR REPLACE FUNCTION has_head_start(p_run chat_runs) RETURNS boolean LANGUAGE sql AS $$
  SELECT p_run.state = 'running' AND p_run.fence[3] = 0
     AND coalesce(p_run.head_start_at > clock_timestamp() - interval '2 seconds'
                  OR p_run.head_start_at > clock_timestamp() - interval '30 seconds'
                     AND EXISTS (SELECT FROM worker_leases WHERE worker_id = p_run.head_start_worker AND lost_at IS NULL),
                  false)
$$;

-- Claims a run under a fence; null: done. Otherwise returns { kind, ... }: ended, earlier (there are open runs before it),
-- paused, abort, lost, or underway: a head start does the work, and activities wait for its outcome. `p_started_at` (epoch milliseconds) is when the workflow began the run; the first claim stores it, bounded to
-- the last 5 s. `p_worker` is the worker of a head start.
CREATE OR REPLACE FUNCTION claim_run(
  p_session text, p_run integer, p_fence integer[], p_started_at bigint, p_worker uuid DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_chat chat_sessions := lock_session(p_session);
  v_run chat_runs;
BEGIN
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run FOR UPDATE;
  IF v_run.seq IS NULL OR v_run.state IN ('finished', 'aborted', 'error', 'cancelled') THEN
    RETURN jsonb_build_object('kind', 'ended', 'state', coalesce(v_run.state, 'cancelled'), 'code', v_run.error_code);
  ELSIF EXISTS (SELECT FROM chat_runs WHERE session_id = p_session AND seq < p_run
                   AND state IN ('queued', 'running', 'waiting')) THEN
    RETURN jsonb_build_object('kind', 'earlier', 'runs', (
      SELECT jsonb_agg(jsonb_build_object('run_seq', seq, 'message_id', message_id, 'model', model) ORDER BY seq)
        FROM chat_runs WHERE session_id = p_session AND seq < p_run AND state IN ('queued', 'running', 'waiting')));
  ELSIF v_run.abort_requested_at IS NOT NULL THEN
    RETURN '{"kind": "abort"}';
  ELSIF v_run.state = 'waiting' THEN
    RETURN '{"kind": "lost"}';
  ELSIF v_run.state = 'queued' AND v_chat.paused_at IS NOT NULL THEN
    RETURN '{"kind": "paused"}';
  ELSIF p_fence[1] < v_chat.epoch THEN
    RETURN '{"kind": "lost"}';
  ELSIF has_head_start(v_run) AND p_fence[1:3] <> v_run.fence[1:3] THEN
    -- It is not a repeat of its own claim: another worker with the workflow in its cache was faster, or an activity waits.
    RETURN jsonb_build_object('kind', CASE WHEN p_fence[3] = 0 THEN 'lost' ELSE 'underway' END);
  ELSIF p_fence <= v_run.fence THEN
    RETURN '{"kind": "lost"}';
  END IF;
  UPDATE chat_runs
     SET fence = p_fence, state = 'running', retry = NULL, updated_at = clock_timestamp(),
         head_start_at = CASE WHEN p_fence[3] = 0 THEN clock_timestamp() END,
         head_start_worker = CASE WHEN p_fence[3] = 0 THEN p_worker END,
         -- Bounded by Postgres' clock: the claim may have waited for a worker, which does not count as the run's time, or
         -- the clock of the workflow's server may be ahead.
         started_at = coalesce(started_at, least(clock_timestamp(), greatest(
           to_timestamp(p_started_at / 1000.0), clock_timestamp() - interval '5 seconds')))
   WHERE session_id = p_session AND seq = p_run;
  RETURN NULL;
END $$;

-- Reports of a head start in `p_worker`: alive (it has no activity yet), adopted (it has one), or failed. One that arrives
-- after the step or tool call has ended changes nothing: others would wait for it.
CREATE OR REPLACE FUNCTION report_head_start(
  p_session text, p_run integer, p_fence integer[], p_state text, p_worker uuid
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_runs
     SET head_start_at = CASE p_state WHEN 'alive' THEN clock_timestamp() WHEN 'failed' THEN timestamptz '-infinity' END,
         head_start_worker = p_worker
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running'
     AND head_start_at > '-infinity';
  RETURN FOUND;
END $$;

-- chat_runs.head_start_at once the step or tool call has ended: none is in progress, and none may have an activity.
CREATE OR REPLACE FUNCTION head_start_over(p_run chat_runs) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_run.head_start_at IS NOT NULL THEN timestamptz '-infinity' END
$$;

-- Records that the run waits for a retry. `p_retry` is { attempt, reason, at } with `at` in epoch milliseconds.
CREATE OR REPLACE FUNCTION note_retry(p_session text, p_run integer, p_fence integer[], p_retry jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_runs run SET retry = p_retry, head_start_at = head_start_over(run), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running';
  RETURN FOUND;
END $$;

-- Adds an event with what a provider said about a failed model call, whose whole answer, if it had one, is `spent` in p_data: as in
-- count_discarded. A repeat by the same attempt changes nothing. False: another attempt has the run.
CREATE OR REPLACE FUNCTION log_provider_error(p_session text, p_run integer, p_fence integer[], p_data jsonb)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_id text := 'provider-error:' || p_run || ':' || array_to_string(p_fence[1:3], '.');
BEGIN
  PERFORM lock_session(p_session);
  IF NOT EXISTS (SELECT FROM chat_runs WHERE session_id = p_session AND seq = p_run AND fence = p_fence
                                         AND state = 'running') THEN
    RETURN false;
  ELSIF NOT EXISTS (SELECT FROM session_events WHERE session_id = p_session AND command_id = v_id) THEN
    PERFORM append_event(p_session, 'provider_error', 'system',
                         p_data - 'spent' || jsonb_build_object('run_seq', p_run), v_id);
    IF p_data ? 'spent' THEN PERFORM count_discarded(p_session, p_run, p_data -> 'spent'); END IF;
  END IF;
  RETURN true;
END $$;

-- Ends a run, and a compaction that is under way in it: deletes its `temp:` state, clears pending_tool if no other run is active,
-- queues its messages for the search, ends its children (after an error of a user's session only those that it waits for), and
-- pauses the queue after an error until the next message; a run by hand stops no queue. Returns the ended runs of children, as
-- end_children().
CREATE OR REPLACE FUNCTION close_run(p_session text, p_run integer, p_state text, p_code text, p_message text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_message text;
  v_kind text;
  v_children jsonb := '[]';
BEGIN
  UPDATE chat_runs
     SET state = p_state, error_code = p_code, error_message = p_message, retry = NULL, temp = NULL, progress = NULL,
         waiting = NULL, given = NULL, replaced = NULL, compaction = CASE WHEN compaction ->> 'state' = 'running'
           THEN jsonb_build_object('state', CASE p_state WHEN 'error' THEN 'failed' ELSE 'none' END) ELSE compaction END,
         finished_at = clock_timestamp(), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run
  RETURNING message_id, kind INTO v_message, v_kind;
  PERFORM queue_turn(p_session, v_message);
  IF NOT EXISTS (SELECT FROM chat_runs WHERE session_id = p_session AND state IN ('running', 'waiting')) THEN
    PERFORM write_pending_tool(p_session, NULL);
  END IF;
  IF p_state IN ('aborted', 'error') AND has_open_tasks(p_session) THEN
    v_children := end_children(
      p_session, (SELECT position FROM chat_messages WHERE session_id = p_session AND id = v_message),
      p_state = 'aborted' OR (SELECT depth > 0 FROM chat_sessions WHERE session_id = p_session));
  END IF;
  IF p_state = 'error' AND (v_kind = 'turn' OR head_run(p_session) IS NULL) THEN
    UPDATE chat_sessions SET paused_at = clock_timestamp(), updated_at = clock_timestamp()
     WHERE session_id = p_session;
  END IF;
  RETURN v_children;
END $$;

-- { children } of a result, unless no run of a child has ended.
CREATE OR REPLACE FUNCTION ended_with(p_children jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_children <> '[]' THEN jsonb_build_object('children', p_children) ELSE '{}' END
$$;

-- Ends a run as finished, an error or aborted; if an abort was requested, always as aborted. An abort leaves the parts as the
-- user saw them; an error gives every open tool call an outcome. A call that asks is denied in all cases. A repeat returns how the
-- run ended; the first time `children` are the runs of children that ended with it, if any. Activities pass their fence and get
-- `lost` if another attempt has claimed the run; workflows pass none. `p_answer` is { metadata?, parts }: the last parts of the
-- answer if the end is an error, and the metadata of its row if they create it.
CREATE OR REPLACE FUNCTION settle_run(
  p_session text, p_run integer, p_fence integer[], p_state text, p_code text, p_message text, p_tool_error text,
  p_answer jsonb DEFAULT NULL
) RETURNS jsonb LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
  v_run chat_runs;
  v_state text := p_state;
  v_children jsonb;
BEGIN
  PERFORM lock_session(p_session);
  SELECT * INTO v_run FROM chat_runs WHERE session_id = p_session AND seq = p_run FOR UPDATE;
  IF v_run.seq IS NULL OR v_run.state NOT IN ('queued', 'running', 'waiting') THEN
    RETURN jsonb_build_object('kind', 'ended', 'state', coalesce(v_run.state, 'cancelled'), 'code', v_run.error_code);
  ELSIF p_fence IS NOT NULL AND v_run.fence <> p_fence THEN
    RETURN '{"kind": "lost"}';
  END IF;
  IF v_run.abort_requested_at IS NOT NULL THEN
    v_state := 'aborted';
  END IF;
  PERFORM settle_deltas(p_session, v_run.answer_id);
  IF v_run.waiting ->> 'for' = 'approval' THEN
    UPDATE chat_parts
       SET data = data || jsonb_build_object('state', 'output-denied', 'approval', data -> 'approval'
             || jsonb_build_object('approved', false, 'reason', coalesce(p_tool_error, 'aborted by the user'))),
           tool_state = 'output-denied', updated_at = clock_timestamp()
     WHERE session_id = p_session AND tool_call_id = v_run.waiting ->> 'tool_call_id' AND tool_state = 'approval-requested';
  END IF;
  IF v_state = 'error' THEN
    UPDATE chat_parts
       SET data = data || jsonb_build_object('state', 'output-error', 'errorText', p_tool_error),
           tool_state = 'output-error', updated_at = clock_timestamp()
     WHERE session_id = p_session AND message_id = v_run.answer_id
       AND tool_state IN ('input-streaming', 'input-available', 'approval-requested', 'approval-responded');
    IF p_answer IS NOT NULL THEN
      PERFORM ensure_answer(p_session, v_run, p_answer -> 'metadata');
      PERFORM put_parts(p_session, v_run.answer_id, p_answer -> 'parts');
    END IF;
  END IF;
  v_children := close_run(p_session, p_run, v_state, CASE WHEN v_state = 'error' THEN p_code END,
                          CASE WHEN v_state = 'error' THEN p_message END);
  RETURN jsonb_build_object('kind', 'ended', 'state', v_state, 'code', CASE WHEN v_state = 'error' THEN p_code END)
    || ended_with(v_children);
END $$;
