-- Commands of reviews (initiatives.sql says how they are called): a resume flags an initiative whose workspace is not as its
-- resume_context says, and nobody is given a task until somebody has reviewed that.

-- Why nobody can go on with an initiative; null: one can.
CREATE OR REPLACE FUNCTION refuse_flagged(p_initiative text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT '{"code": "ReviewRequired"}'::jsonb FROM initiatives WHERE initiative_id = p_initiative AND review IS NOT NULL
$$;

-- p_args: { resume_context, mismatches }, of what was checked. Flags the mismatches that no review has accepted; null: there are none.
CREATE OR REPLACE FUNCTION ini_flag_review(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_row initiatives := (SELECT i FROM initiatives i WHERE initiative_id = p_initiative);
  v_known jsonb := coalesce(v_row.reviewed -> 'mismatches', '[]') || coalesce(v_row.review, '[]');
  v_new jsonb;
BEGIN
  IF v_row.resume_context <> p_args -> 'resume_context' THEN RETURN '{"code": "StaleState"}'; END IF;
  SELECT jsonb_agg(mismatch) INTO v_new FROM jsonb_array_elements(p_args -> 'mismatches') AS mismatch
   WHERE NOT v_known @> jsonb_build_array(mismatch);
  IF v_new IS NULL THEN RETURN NULL; END IF;
  UPDATE initiatives SET review = coalesce(review, '[]') || v_new WHERE initiative_id = p_initiative;
  RETURN jsonb_build_object('kind', 'review_required', 'data', jsonb_build_object('mismatches', jsonb_array_length(v_new)));
END $$;

-- p_args: { note }. Accepts what is flagged; null: nothing is.
CREATE OR REPLACE FUNCTION ini_review(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  UPDATE initiatives
     SET review = NULL, reviewed = jsonb_build_object(
           'note', p_args -> 'note', 'mismatches', coalesce(reviewed -> 'mismatches', '[]') || review)
   WHERE initiative_id = p_initiative AND review IS NOT NULL;
  IF NOT FOUND THEN RETURN NULL; END IF;
  RETURN '{"kind": "reviewed"}';
END $$;
