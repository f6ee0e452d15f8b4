-- Claiming, aborting and ending runs. A claim needs a greater fence (epoch, ordinal, attempt) than the run has; every later
-- write passes that fence, and after a claim with a greater one it changes nothing and returns "lost".

-- The run in flight, else the first queued one unless an error paused the queue. Null: the session is idle.
CREATE OR REPLACE FUNCTION head_run(p_session text) RETURNS integer LANGUAGE sql STABLE AS $$
  SELECT r.seq
    FROM chat_runs r JOIN chat_sessions c USING (session_id)
   WHERE r.session_id = p_session
     AND r.state IN ('queued', 'running', 'waiting')
     AND (r.state <> 'queued' OR c.paused_at IS NULL)
   ORDER BY r.state = 'queued', r.seq
   LIMIT 1
$$;

-- Marks head_run() as to be aborted and returns it. Null: the session is idle.
CREATE OR REPLACE FUNCTION request_abort(p_session text) RETURNS integer LANGUAGE sql AS $$
  UPDATE chat_runs
     SET abort_requested_at = coalesce(abort_requested_at, clock_timestamp()), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = head_run(p_session)
  RETURNING seq
$$;

-- Ends a queued run and hides its message, whose id is returned.
CREATE OR REPLACE FUNCTION cancel_queued_run(p_session text, p_run integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_message text;
BEGIN
  UPDATE chat_runs
     SET state = 'cancelled', finished_at = clock_timestamp(), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run AND state = 'queued'
  RETURNING message_id INTO v_message;
  UPDATE chat_messages
     SET hidden_at = clock_timestamp(), updated_at = clock_timestamp(),
         metadata = metadata || jsonb_build_object('hidden_by', jsonb_build_object('cause', 'cancelled', 'id', v_message))
   WHERE session_id = p_session AND id = v_message AND hidden_at IS NULL;
  RETURN v_message;
END $$;

-- Claims a run under a fence; null: done. Otherwise returns { kind, ... }: ended, earlier (there are open runs before it),
-- paused, abort or lost. `p_started_at` (epoch milliseconds) is when the workflow began the run; the first claim stores it,
-- bounded to the last 5 s.
CREATE OR REPLACE FUNCTION claim_run(p_session text, p_run integer, p_fence integer[], p_started_at bigint)
RETURNS jsonb LANGUAGE plpgsql AS $$
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
  ELSIF v_run.state = 'queued' AND v_chat.paused_at IS NOT NULL THEN
    RETURN '{"kind": "paused"}';
  ELSIF p_fence <= v_run.fence THEN
    RETURN '{"kind": "lost"}';
  END IF;
  UPDATE chat_runs
     SET fence = p_fence, state = 'running', retry = NULL, updated_at = clock_timestamp(),
         -- Bounded by Postgres' clock: the claim may have waited for a worker, which does not count as the run's time, or
         -- the clock of the workflow's server may be ahead.
         started_at = coalesce(started_at, least(clock_timestamp(), greatest(
           to_timestamp(p_started_at / 1000.0), clock_timestamp() - interval '5 seconds')))
   WHERE session_id = p_session AND seq = p_run;
  RETURN NULL;
END $$;

-- Records that the run waits for a retry. `p_retry` is { attempt, reason, at } with `at` in epoch milliseconds.
CREATE OR REPLACE FUNCTION note_retry(p_session text, p_run integer, p_fence integer[], p_retry jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_runs SET retry = p_retry, updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run AND fence = p_fence AND state = 'running';
  RETURN FOUND;
END $$;

-- Ends a run: deletes its `temp:` state, clears pending_tool if no other run is active, and pauses the queue after an error
-- until the next message.
CREATE OR REPLACE FUNCTION end_run(p_session text, p_run integer, p_state text, p_code text, p_message text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE chat_runs
     SET state = p_state, error_code = p_code, error_message = p_message, retry = NULL, temp = NULL, progress = NULL,
         finished_at = clock_timestamp(), updated_at = clock_timestamp()
   WHERE session_id = p_session AND seq = p_run;
  IF NOT EXISTS (SELECT FROM chat_runs WHERE session_id = p_session AND state IN ('running', 'waiting')) THEN
    PERFORM write_pending_tool(p_session, NULL);
  END IF;
  IF p_state = 'error' THEN
    UPDATE chat_sessions SET paused_at = clock_timestamp(), updated_at = clock_timestamp()
     WHERE session_id = p_session;
  END IF;
END $$;

-- Ends a run as an error or aborted; if an abort was requested, always as aborted. An abort leaves the parts as the user saw
-- them; an error gives every open tool call an outcome. A repeat returns how the run ended. Activities pass their fence and
-- get `lost` if another attempt has claimed the run; workflows pass none.
CREATE OR REPLACE FUNCTION settle_run(
  p_session text, p_run integer, p_fence integer[], p_state text, p_code text, p_message text, p_tool_error text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_run chat_runs;
  v_state text := p_state;
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
  IF v_state = 'error' THEN
    UPDATE chat_parts
       SET data = data || jsonb_build_object('state', 'output-error', 'errorText', p_tool_error),
           tool_state = 'output-error', updated_at = clock_timestamp()
     WHERE session_id = p_session AND message_id = v_run.answer_id
       AND tool_state IN ('input-streaming', 'input-available', 'approval-requested', 'approval-responded');
  END IF;
  PERFORM end_run(p_session, p_run, v_state, CASE WHEN v_state = 'error' THEN p_code END,
                  CASE WHEN v_state = 'error' THEN p_message END);
  RETURN jsonb_build_object('kind', 'ended', 'state', v_state, 'code', CASE WHEN v_state = 'error' THEN p_code END);
END $$;
