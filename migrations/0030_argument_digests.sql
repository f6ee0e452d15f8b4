-- The SHA-256 of the arguments of a command, with its receipt: the same key with other arguments is refused. Null: a receipt from
-- before, or a command whose id alone says what it is.
ALTER TABLE session_events ADD COLUMN args_digest bytea;
ALTER TABLE initiative_events ADD COLUMN args_digest bytea;
-- The same of what an initiative was created or imported with, under its creation_key.
ALTER TABLE initiatives ADD COLUMN creation_digest bytea;
