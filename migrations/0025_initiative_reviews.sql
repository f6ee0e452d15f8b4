-- What a resume has found missing, [{ kind, entry, problem }], until somebody has reviewed it; null: nothing.
ALTER TABLE initiatives ADD COLUMN review jsonb;
-- The last review, { mismatches, note }: its mismatches are accepted until resume_context changes.
ALTER TABLE initiatives ADD COLUMN reviewed jsonb;
