-- What a word is for the search (search.sql): of texts and of queries alike, and the same in every locale of a database. Postgres' own
-- parser takes a sentence in Chinese for a word, in some locales each character that is not ASCII for a letter, and in others leaves out
-- emoji; it gets words that are separated by spaces.

-- The word that stands for a user in message_search.words. No text contains it, because of its first character.
CREATE OR REPLACE FUNCTION user_word(p_user text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT chr(1) || md5(p_user)
$$;

-- The text search configuration in which messages are indexed.
CREATE OR REPLACE FUNCTION search_language() RETURNS regconfig LANGUAGE sql STABLE AS $$
  SELECT language::regconfig FROM search_index
$$;

-- A text in lower case and with wide Latin letters as narrow ones. It has as many characters.
CREATE OR REPLACE FUNCTION folded_text(p_text text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT lower(casefold(CASE
           WHEN octet_length(p_text) = length(p_text) OR p_text !~ '[\uff01-\uff5e]' THEN p_text
           ELSE translate(p_text, (SELECT string_agg(chr(65280 + n), '' ORDER BY n) FROM generate_series(1, 94) AS n),
                          (SELECT string_agg(chr(32 + n), '' ORDER BY n) FROM generate_series(1, 94) AS n)) END
         COLLATE pg_c_utf8))
$$;

-- A regular expression for a word of a folded text: a symbol such as an emoji; a character, with its marks, of those languages that
-- have no spaces between words; otherwise what is between spaces, punctuation and other characters that are no letters or digits.
CREATE OR REPLACE FUNCTION word_pattern() RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT format('[%1$s]|[%2$s][%3$s]*|[^%1$s%2$s%4$s]+',
    -- Symbols.
    '\u20a0-\u2bff\U0001f000-\U0001ffff',
    -- Thai, Lao, Burmese, Khmer; Korean; Japanese, Chinese.
    '\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0ece\u0ed0-\u0edf\u1000-\u1049\u1050-\u109d\u1780-\u17d3\u17d7\u17dc-\u17e9'
    '\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb'
    '\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff'
    '\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff',
    -- Their marks.
    '\u0300-\u036f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060'
    '\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u17b4-\u17d3\u17dd\u3099\u309a\uff9e\uff9f',
    -- Between words; besides the classes: fractions, raised digits, invisible characters, characters without a meaning of their own.
    '[:space:][:punct:][:cntrl:]\u00ad\u00b2\u00b3\u00b9\u00bc-\u00be\u200b-\u200f\u2028-\u202e\u2060-\u209f\ue000-\uf8ff'
    '\ufe00-\ufe0f\ufeff\U000e0000-\U0010ffff')
$$;

CREATE OR REPLACE FUNCTION words_in(p_folded text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY(SELECT match[1] FROM regexp_matches(p_folded COLLATE pg_c_utf8, word_pattern(), 'g') AS match)
$$;

-- Words as Postgres' parser gets them, with a space between two; symbols as a word in ASCII, and of a long word the beginning: those of
-- 2,047 bytes or more have no position in a tsvector.
CREATE OR REPLACE FUNCTION plain_words(p_words text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(string_agg(CASE
           WHEN ascii(word) BETWEEN 8352 AND 11263 OR ascii(word) BETWEEN 126976 AND 131071 THEN 'u' || to_hex(ascii(word))
           ELSE left(word, 500) END, ' '), '')
    FROM unnest(p_words) AS word
$$;

-- The words of a user's text, for the index. Where they do not fit into a tsvector (1 MiB), those of its first half, and so on.
CREATE OR REPLACE FUNCTION words_of(p_user text, p_text text) RETURNS tsvector LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_language regconfig := search_language();
  v_words text := plain_words(words_in(folded_text(p_text)));
BEGIN
  LOOP
    BEGIN
      RETURN array_to_tsvector(ARRAY[user_word(p_user)]) || to_tsvector(v_language, v_words);
    EXCEPTION WHEN program_limit_exceeded THEN
      v_words := left(v_words, length(v_words) / 2);
    END;
  END LOOP;
END $$;

-- The operands of a query, as web search engines read it: words, "phrases", or, -not. What is typed without a space between, such as
-- an address, a path or a sentence in Chinese, is a phrase. `operand` is for websearch_to_tsquery; `words` are those of an operand, and
-- `is_wanted` says whether they are to be in the text.
CREATE OR REPLACE FUNCTION query_operands(p_query text)
RETURNS TABLE (typed text, words text, operand text, is_wanted boolean) LANGUAGE sql IMMUTABLE AS $$
  SELECT found[2], plain, CASE WHEN is_or THEN 'or' WHEN plain <> '' THEN coalesce(found[1], '') || '"' || plain || '"' END,
         found[1] IS NULL AND NOT is_or AND plain <> ''
    FROM regexp_matches(translate(folded_text(normalize(p_query, NFC)), '“”„‟«»', '""""""') COLLATE pg_c_utf8,
                        '(-(?!-))?("[^"]*"?|[^[:space:]"]+)', 'g') AS found,
         LATERAL (SELECT plain_words(words_in(found[2])) AS plain, found[1] IS NULL AND found[2] = 'or' AS is_or) AS read
$$;

-- Where phrases are in a text, [[start, end, number of the phrase], …] in characters from 0, by their starts. Of a text of more than
-- 3,000 characters only as many are read, from a little before the first match; `part` is what was read. `p_typed` has the phrases as
-- they were typed, not in the order of `p_phrases`.
CREATE OR REPLACE FUNCTION matches_in(
  p_text text, p_language regconfig, p_typed text[], p_phrases tsvector[], OUT part text, OUT matches jsonb)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_folded text := folded_text(p_text);
  v_from integer := greatest(1, first_place(v_folded, p_typed, p_phrases) - 200);
  v_words text[];
BEGIN
  part := substr(p_text, v_from, 3000);
  v_folded := substr(v_folded, v_from, 3000);
  v_words := words_in(v_folded);
  -- The nth word has the position n, as each is one to Postgres' parser.
  WITH places AS (
    SELECT n, sum(length(gap) + length(word)) OVER (ORDER BY n) AS stop, length(word) AS size
      FROM unnest(v_words, regexp_split_to_array(v_folded COLLATE pg_c_utf8, word_pattern())) WITH ORDINALITY AS each(word, gap, n)
  ), sought AS (
    SELECT number, lexeme, at, count(*) OVER (PARTITION BY number) AS size
      FROM unnest(p_phrases) WITH ORDINALITY AS phrase(words, number), unnest(words) AS word(lexeme, positions, weights),
           unnest(positions) AS at
  ), hits AS (
    SELECT number, position - at + min(at) AS from_word, position - at + max(at) AS to_word
      FROM sought JOIN unnest(to_tsvector(p_language, plain_words(v_words))) AS word(lexeme, positions, weights) USING (lexeme),
           unnest(positions) AS position
     GROUP BY number, size, position - at HAVING count(*) = size
  )
  SELECT coalesce(jsonb_agg(jsonb_build_array(one.stop - one.size, other.stop, number) ORDER BY one.stop, other.stop), '[]')
    INTO matches
    FROM hits JOIN places AS one ON one.n = from_word JOIN places AS other ON other.n = to_word;
END $$;

-- About where the first match is in a folded text, from 1: that of a phrase as it was typed, first as whole words, else that of a word.
CREATE OR REPLACE FUNCTION first_place(p_folded text, p_typed text[], p_phrases tsvector[]) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_place integer;
BEGIN
  IF length(p_folded) <= 3000 THEN RETURN 1; END IF;
  -- One expression for all of them reads the text once.
  SELECT nullif(regexp_instr(p_folded COLLATE pg_c_utf8, format('\y(?:%s)\y', string_agg(
           regexp_replace(btrim(typed, '"'), '([][\\.*+?^$|(){}])', '\\\1', 'g'), '|'))), 0)
    INTO v_place FROM unnest(p_typed) AS typed;
  IF v_place IS NULL THEN
    SELECT min(nullif(strpos(p_folded, btrim(typed, '"')), 0)) INTO v_place FROM unnest(p_typed) AS typed;
  END IF;
  IF v_place IS NULL THEN
    SELECT min(nullif(strpos(p_folded, lexeme), 0)) INTO v_place
      FROM unnest(p_phrases) AS phrase(words), unnest(words) AS word(lexeme, positions, weights);
  END IF;
  RETURN coalesce(v_place, 1);
END $$;
