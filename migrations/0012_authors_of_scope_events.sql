-- scope_events.user_id is null only where the user was erased, or in a row from before this migration that changed nothing of
-- `user:`. Such a row may still name the user as its author: erasing the user finds it here.
CREATE INDEX scope_events_by_author ON scope_events (author) WHERE user_id IS NULL AND author IS NOT NULL;
