-- Workers show that they live: each renews its lease and lists its running activities. Unlogged, because both tables
-- describe processes: after a crash of Postgres they are empty, and workers take new leases when they reconnect.

CREATE UNLOGGED TABLE worker_leases (
  worker_id  uuid PRIMARY KEY,
  renewed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  lease_ms   integer NOT NULL, -- the next renewal comes within this time, or the worker is lost
  lost_at    timestamptz       -- when another worker found it lost and began to fail its activities
) WITH (fillfactor = 50);

CREATE UNLOGGED TABLE worker_activities (
  worker_id  uuid NOT NULL,
  number     integer NOT NULL, -- counts the worker's activities
  task_token bytea NOT NULL,
  PRIMARY KEY (worker_id, number)
);
