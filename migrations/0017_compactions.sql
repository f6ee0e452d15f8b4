ALTER TABLE chat_runs
  -- What the run does: it answers its message, or it compacts or prunes the conversation by hand. Such a run has no user
  -- message; both of its ids are that of the message that it adds.
  ADD COLUMN kind       text NOT NULL DEFAULT 'turn',
  -- The newest compaction of the run: { state: running | summarized | pruned | none | failed, fence, message_id?, turns?, tokens?, warning? }
  ADD COLUMN compaction jsonb,
  -- Migration 0019 validates it: here that would read the whole table under a lock that nothing gets past.
  ADD CONSTRAINT chat_runs_kind_check CHECK (kind IN ('turn', 'compaction', 'prune')) NOT VALID;

-- The last step, as (run, number), that was settled before the conversation was compacted, pruned, copied or un-rewound: steps up
-- to it do not say how much of the window the conversation fills. Null: all do.
ALTER TABLE chat_sessions ADD COLUMN counted_to integer[];
