-- From before the first release: a worker of the code before it cannot read prompts afterwards.

-- Most parts are no tool calls.
ALTER TABLE chat_parts DROP CONSTRAINT chat_parts_session_id_tool_call_id_key;
CREATE UNIQUE INDEX chat_parts_of_tool_calls ON chat_parts (session_id, tool_call_id) WHERE tool_call_id IS NOT NULL;

-- Digests as bytes instead of hex: that of all sections stays in hex in a message's metadata.
ALTER TABLE prompt_sections ALTER COLUMN digest TYPE bytea USING decode(digest, 'hex');
ALTER TABLE system_prompts
  ALTER COLUMN digest TYPE bytea USING decode(digest, 'hex'),
  ALTER COLUMN sections TYPE bytea[] USING CASE
    WHEN sections = '{}' THEN '{}'
    ELSE ('{"\\x' || array_to_string(sections, '","\\x') || '"}')::bytea[]
  END;
