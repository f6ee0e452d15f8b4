-- Initiatives: position, decisions, blockers and work sessions of work that outlives any chat session (store/sql/initiatives.sql).

-- Legal changes of a status, from domain/initiatives/machines.ts.
CREATE TABLE initiative_transitions (
  machine text NOT NULL,
  status  text NOT NULL,
  event   text NOT NULL,
  next    text NOT NULL,
  PRIMARY KEY (machine, status, event)
);

CREATE TABLE initiatives (
  initiative_id  text PRIMARY KEY,
  user_id        text NOT NULL,
  title          text NOT NULL,
  status         text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'escalated', 'completed')),
  next_action    text NOT NULL DEFAULT '',
  resume_context jsonb NOT NULL DEFAULT
    '{"files_modified_this_session": [], "key_implementations": [], "open_questions": []}',
  project_id     text,
  workspace_root text,
  version        bigint NOT NULL DEFAULT 1, -- increased by every change that STATE.md shows
  creation_key   text,                      -- Idempotency-Key of its creation
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (user_id, initiative_id),
  UNIQUE (user_id, creation_key)
);

CREATE TABLE initiative_phases (
  initiative_id text NOT NULL REFERENCES initiatives ON DELETE CASCADE,
  phase         integer NOT NULL,
  name          text NOT NULL,
  status        text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'completed')),
  PRIMARY KEY (initiative_id, phase)
);

CREATE TABLE initiative_plans (
  initiative_id text NOT NULL,
  phase         integer NOT NULL,
  plan          integer NOT NULL,
  name          text NOT NULL,
  body          text NOT NULL DEFAULT '',
  summary       text, -- of the notes of its tasks, once all are completed
  status        text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'completed')),
  PRIMARY KEY (initiative_id, phase, plan),
  FOREIGN KEY (initiative_id, phase) REFERENCES initiative_phases ON DELETE CASCADE
);

CREATE TABLE initiative_tasks (
  initiative_id    text NOT NULL,
  task_id          text NOT NULL,
  phase            integer NOT NULL,
  plan             integer NOT NULL,
  wave             integer NOT NULL,
  number           integer NOT NULL, -- in its plan, from 1
  name             text NOT NULL,
  status           text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'in_progress', 'blocked', 'completed')),
  assigned_to      text,             -- the work session that holds it
  assigned_at      timestamptz,
  last_progress_at timestamptz,
  note             text,             -- of its newest report
  completed_at     timestamptz,
  PRIMARY KEY (initiative_id, task_id),
  UNIQUE (initiative_id, phase, plan, wave, number),
  UNIQUE (initiative_id, phase, plan, name),
  FOREIGN KEY (initiative_id, phase, plan) REFERENCES initiative_plans ON DELETE CASCADE,
  CHECK ((assigned_to IS NULL) = (assigned_at IS NULL)),
  CHECK (assigned_to IS NULL OR status IN ('open', 'in_progress', 'completed'))
);
CREATE INDEX initiative_tasks_claimable ON initiative_tasks (initiative_id, phase, plan, wave, number)
  WHERE status = 'open' AND assigned_to IS NULL;
CREATE INDEX initiative_tasks_held ON initiative_tasks (initiative_id, assigned_to)
  WHERE assigned_to IS NOT NULL AND status <> 'completed';

-- The position. Its task is the last one once the initiative is completed.
CREATE TABLE initiative_state (
  initiative_id text PRIMARY KEY REFERENCES initiatives ON DELETE CASCADE,
  current_phase integer NOT NULL,
  current_plan  integer NOT NULL,
  current_task  text NOT NULL,
  current_wave  integer NOT NULL,
  status        text NOT NULL CHECK (
    status IN ('open', 'in_progress', 'blocked', 'paused', 'escalated', 'completed')
  ),
  progress      jsonb NOT NULL,
  updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  FOREIGN KEY (initiative_id, current_task) REFERENCES initiative_tasks ON DELETE CASCADE
);

CREATE TABLE initiative_decisions (
  initiative_id           text NOT NULL REFERENCES initiatives ON DELETE CASCADE,
  decision_id             text NOT NULL,
  number                  integer NOT NULL,
  kind                    text CHECK (kind IN ('technology', 'architecture', 'trade-off', 'preference', 'constraint')),
  date                    date NOT NULL,
  context                 text NOT NULL,
  decision                text NOT NULL,
  reason                  text NOT NULL,
  alternatives_considered jsonb NOT NULL DEFAULT '[]',
  reversible              boolean,
  PRIMARY KEY (initiative_id, decision_id),
  UNIQUE (initiative_id, number)
);

CREATE TABLE initiative_blockers (
  initiative_id text NOT NULL REFERENCES initiatives ON DELETE CASCADE,
  id            text NOT NULL, -- block-001
  number        integer NOT NULL,
  status        text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'bypassed', 'resolved')),
  description   text NOT NULL,
  identified_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  affects       jsonb NOT NULL DEFAULT '[]',
  workaround    text,
  resolution    text,
  resolved_at   timestamptz,
  PRIMARY KEY (initiative_id, id),
  UNIQUE (initiative_id, number)
);

-- The tasks that a blocker blocks, or that its workaround has added.
CREATE TABLE initiative_blocker_tasks (
  initiative_id text NOT NULL,
  blocker       text NOT NULL,
  task_id       text NOT NULL,
  part          text NOT NULL CHECK (part IN ('blocked', 'workaround')),
  PRIMARY KEY (initiative_id, blocker, task_id),
  FOREIGN KEY (initiative_id, blocker) REFERENCES initiative_blockers ON DELETE CASCADE,
  FOREIGN KEY (initiative_id, task_id) REFERENCES initiative_tasks ON DELETE CASCADE
);
CREATE INDEX initiative_blocker_tasks_by_task ON initiative_blocker_tasks (initiative_id, task_id);

CREATE TABLE session_history (
  initiative_id  text NOT NULL REFERENCES initiatives ON DELETE CASCADE,
  id             text NOT NULL, -- session-001
  number         integer NOT NULL,
  agent          text NOT NULL,
  session_id     text REFERENCES sessions ON DELETE SET NULL, -- the chat session that the agent runs in
  status         text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'ended', 'crashed')),
  started        timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended          timestamptz,
  working_on     text,
  context_usage  double precision CHECK (context_usage BETWEEN 0 AND 1),
  completed      jsonb NOT NULL DEFAULT '[]',
  issues         jsonb NOT NULL DEFAULT '[]',
  handoff_reason text,
  notes          text,
  resumed_by     text, -- of a crashed one: the work session that was told about it
  PRIMARY KEY (initiative_id, id),
  UNIQUE (initiative_id, number)
);
CREATE INDEX session_history_by_session ON session_history (session_id) WHERE session_id IS NOT NULL;

-- The event log of an initiative: one row per command id, with ids and statuses only.
CREATE TABLE initiative_events (
  initiative_id text NOT NULL REFERENCES initiatives ON DELETE CASCADE,
  seq           bigint GENERATED ALWAYS AS IDENTITY,
  at            timestamptz NOT NULL DEFAULT clock_timestamp(),
  kind          text NOT NULL,
  actor         text NOT NULL,
  data          jsonb NOT NULL DEFAULT '{}',
  command_id    text NOT NULL,
  PRIMARY KEY (initiative_id, seq),
  UNIQUE (initiative_id, command_id)
);

-- Placeholders until the same migration run replaces them with store/sql.
CREATE FUNCTION guard_initiative_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'store/sql has not been applied'; END $$;
CREATE FUNCTION guard_initiative_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'store/sql has not been applied'; END $$;
CREATE TRIGGER guard BEFORE UPDATE OF status ON initiatives
  FOR EACH ROW WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION guard_initiative_status('initiative');
CREATE TRIGGER guard BEFORE UPDATE OF status ON initiative_phases
  FOR EACH ROW WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION guard_initiative_status('phase');
CREATE TRIGGER guard BEFORE UPDATE OF status ON initiative_plans
  FOR EACH ROW WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION guard_initiative_status('plan');
CREATE TRIGGER guard BEFORE UPDATE OF status ON initiative_tasks
  FOR EACH ROW WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION guard_initiative_status('task');
CREATE TRIGGER guard BEFORE UPDATE OF status ON initiative_blockers
  FOR EACH ROW WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION guard_initiative_status('blocker');
CREATE TRIGGER guard BEFORE UPDATE OF status ON session_history
  FOR EACH ROW WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION guard_initiative_status('work_session');
CREATE TRIGGER guard BEFORE UPDATE OR DELETE ON initiative_events
  FOR EACH ROW EXECUTE FUNCTION guard_initiative_events();
