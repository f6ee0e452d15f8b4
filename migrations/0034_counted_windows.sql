-- How many tokens the model's view of the conversation has, counted when it had changed and no step had reported since. Null: not
-- counted, or the view has changed again.
ALTER TABLE chat_sessions ADD COLUMN counted_tokens integer;
