-- What a run has replaced in the conversation (store/sql/taking_back.sql), to show it again if the run is taken out of the queue;
-- null: nothing.
ALTER TABLE chat_runs ADD COLUMN replaced jsonb;
