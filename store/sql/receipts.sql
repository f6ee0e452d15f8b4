-- What commands of sessions (commands.sql) and of initiatives (initiatives.sql) have in common: the event of a command is its receipt.

-- What a command gets whose id has an event: the outcome that this records; or KeyReused, if the arguments are other ones. A digest
-- that is null is not compared.
CREATE OR REPLACE FUNCTION recorded_outcome(p_data jsonb, p_recorded bytea, p_digest bytea) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_recorded <> p_digest THEN '{"ok": false, "code": "KeyReused"}'::jsonb ELSE p_data -> 'outcome' END
$$;

-- The outcome to record of what a command's own function has returned: a refusal, { "code", ... }, or { "kind", "data", "outcome" }.
CREATE OR REPLACE FUNCTION outcome_of(p_result jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_result ? 'code' THEN (p_result - 'data') || '{"ok": false}'
              ELSE coalesce(p_result -> 'outcome', '{}') || '{"ok": true}' END
$$;
