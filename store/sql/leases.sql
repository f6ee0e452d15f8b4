-- Leases of workers (worker/leases/lease-keeper.ts). Times are by Postgres' clock, which all workers share. Every function may be
-- executed late or twice, by a connection that its worker has given up.

-- Takes a lease, also after it was found lost, with all activities that the worker runs now, and the ids of its agents. Returns how long Postgres has
-- been up, in milliseconds.
CREATE OR REPLACE FUNCTION take_lease(
  p_worker uuid, p_lease_ms integer, p_numbers integer[], p_tokens bytea[], p_agents text[] DEFAULT NULL
) RETURNS double precision LANGUAGE sql AS $$
  DELETE FROM worker_activities WHERE worker_id = p_worker;
  INSERT INTO worker_leases (worker_id, lease_ms, agents) VALUES (p_worker, p_lease_ms, p_agents)
  ON CONFLICT (worker_id) DO UPDATE
    SET renewed_at = clock_timestamp(), lease_ms = excluded.lease_ms, agents = excluded.agents, lost_at = NULL;
  INSERT INTO worker_activities SELECT p_worker, n, token FROM unnest(p_numbers, p_tokens) AS given(n, token);
  SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * 1000;
$$;

-- Lists activities that began.
CREATE OR REPLACE FUNCTION list_activities(p_worker uuid, p_numbers integer[], p_tokens bytea[]) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO worker_activities SELECT p_worker, n, token FROM unnest(p_numbers, p_tokens) AS given(n, token)
  ON CONFLICT DO NOTHING
$$;

-- Renews a lease and removes activities that ended. Returns { gap_ms, late }: the time since its last renewal, and the other
-- workers that have used more than half of their lease, as { worker_id, lease_ms, age_ms }. Null: there is no such lease,
-- or it was found lost. A lost worker is listed again after 2 s, because its finder may have died.
CREATE OR REPLACE FUNCTION renew_lease(p_worker uuid, p_lease_ms integer, p_ended integer[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_before timestamptz := (SELECT renewed_at FROM worker_leases WHERE worker_id = p_worker);
  v_now timestamptz := clock_timestamp();
BEGIN
  UPDATE worker_leases SET renewed_at = v_now, lease_ms = p_lease_ms WHERE worker_id = p_worker AND lost_at IS NULL;
  IF NOT FOUND THEN RETURN NULL; END IF;
  IF p_ended <> '{}' THEN
    DELETE FROM worker_activities WHERE worker_id = p_worker AND number = ANY (p_ended);
  END IF;
  RETURN jsonb_build_object('gap_ms', extract(epoch FROM v_now - v_before) * 1000, 'late', (
    SELECT coalesce(jsonb_agg(jsonb_build_object(
             'worker_id', worker_id, 'lease_ms', lease_ms, 'age_ms', extract(epoch FROM v_now - renewed_at) * 1000)), '[]')
      FROM worker_leases
     WHERE worker_id <> p_worker
       AND v_now - renewed_at > lease_ms * interval '0.5 milliseconds'
       AND (lost_at IS NULL OR lost_at < v_now - interval '2 seconds')));
END $$;

-- Declares a worker lost whose lease has lapsed, and ends its head starts, which activities of other workers may wait for.
-- Returns { tokens, runs, queued }: the task tokens of its activities in base64; its head starts, as { session_id, run_seq,
-- step, calls, fence } with the open calls of the last step and the fence under which another worker may go on; and runs that
-- nobody has begun, of those that could start the ones accepted last, as { session_id, run_seq }: the lost worker may have been
-- to do so. Null: it is not lost, or another worker has just found it. A run that is locked is being claimed or written: it is skipped, and its
-- head start ends when it is silent.
CREATE OR REPLACE FUNCTION find_lost_worker(p_worker uuid) RETURNS jsonb
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  v_runs jsonb;
BEGIN
  UPDATE worker_leases SET lost_at = clock_timestamp()
   WHERE worker_id = p_worker
     AND clock_timestamp() - renewed_at > lease_ms * interval '1 millisecond'
     AND (lost_at IS NULL OR lost_at < clock_timestamp() - interval '2 seconds');
  IF NOT FOUND THEN RETURN NULL; END IF;
  WITH ended AS (
    UPDATE chat_runs SET head_start_at = '-infinity'
     WHERE (session_id, seq) IN (
       SELECT session_id, seq FROM chat_runs
        WHERE state = 'running' AND head_start_worker = p_worker AND head_start_at > '-infinity' FOR UPDATE SKIP LOCKED)
    RETURNING *
  )
  SELECT coalesce(jsonb_agg(jsonb_build_object(
           'session_id', r.session_id, 'run_seq', r.seq, 'step', r.step, 'calls', open_calls(r),
           'fence', fence_after_loss(r, c.epoch))), '[]') INTO v_runs
    FROM ended r JOIN chat_sessions c USING (session_id)
   WHERE r.fence[3] = 0 AND r.abort_requested_at IS NULL;
  RETURN jsonb_build_object('runs', v_runs, 'tokens', (
    SELECT coalesce(jsonb_agg(translate(encode(task_token, 'base64'), E'\n', '')), '[]')
      FROM worker_activities WHERE worker_id = p_worker
  ), 'queued', (
    SELECT coalesce(jsonb_agg(due), '[]') FROM (
      SELECT session_id, seq AS run_seq FROM chat_runs
       WHERE state = 'queued' AND check_at IS NOT NULL ORDER BY check_at DESC LIMIT 100) AS due));
END $$;

-- The fence under which another worker goes on with a head start of a lost one: greater than the lost one's, whatever that
-- renews its own to, and smaller than that of the activity which comes for the same unit.
CREATE OR REPLACE FUNCTION fence_after_loss(p_run chat_runs, p_epoch integer) RETURNS integer[] LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_run.fence[1] = p_epoch THEN p_run.fence[1:3] || (coalesce(p_run.fence[4], 0) + 1000000)
              ELSE ARRAY[p_epoch, 1, 0] END
$$;

-- Ends a lease. `p_lost`: that of a lost worker whose activities have been failed, unless it has taken its lease again.
CREATE OR REPLACE FUNCTION end_lease(p_worker uuid, p_lost boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM worker_leases WHERE worker_id = p_worker AND (NOT p_lost OR lost_at IS NOT NULL);
  IF FOUND THEN
    DELETE FROM worker_activities WHERE worker_id = p_worker;
  END IF;
END $$;
