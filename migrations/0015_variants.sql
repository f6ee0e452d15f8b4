-- The variant of a run's model, such as "high"; null: the model as it is.
ALTER TABLE chat_runs ADD COLUMN variant text;
