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

-- p_args: { note, seen? }. Accepts what is flagged, and of that only what `seen` lists if it is given: a resume may have flagged more
-- since its author has read the list. Null: there is nothing to accept.
CREATE OR REPLACE FUNCTION ini_review(p_initiative text, p_args jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  v_accepted jsonb;
  v_left jsonb;
BEGIN
  SELECT jsonb_agg(mismatch) FILTER (WHERE is_seen), jsonb_agg(mismatch) FILTER (WHERE NOT is_seen) INTO v_accepted, v_left
    FROM (SELECT mismatch, NOT p_args ? 'seen' OR mismatch IN (SELECT jsonb_array_elements(p_args -> 'seen')) AS is_seen
            FROM initiatives, jsonb_array_elements(review) AS mismatch WHERE initiative_id = p_initiative) AS flagged;
  IF v_accepted IS NULL THEN RETURN NULL; END IF;
  UPDATE initiatives
     SET review = v_left, reviewed = jsonb_build_object(
           'note', p_args -> 'note', 'mismatches', coalesce(reviewed -> 'mismatches', '[]') || v_accepted)
   WHERE initiative_id = p_initiative;
  RETURN '{"kind": "reviewed"}';
END $$;
