-- MCP servers: the tools that agents know, and which servers workers cannot reach.

-- Pins the tools of a server that a version of an agent has not seen yet, and returns the names of those whose pin has another
-- digest. p_digests are in the order of p_tools.
CREATE OR REPLACE FUNCTION changed_mcp_tools(
  p_agent text, p_version text, p_server text, p_tools text[], p_digests bytea[]
) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
  -- In one order, so that workers which start together wait for each other and do not deadlock.
  INSERT INTO mcp_tool_pins (agent, version, server, tool, digest)
  SELECT p_agent, decode(p_version, 'hex'), p_server, given.tool, given.digest
    FROM unnest(p_tools, p_digests) AS given(tool, digest) ORDER BY given.tool
  ON CONFLICT DO NOTHING;
  RETURN ARRAY(
    SELECT given.tool
      FROM unnest(p_tools, p_digests) AS given(tool, digest)
      JOIN mcp_tool_pins AS pin ON pin.tool = given.tool
     WHERE pin.agent = p_agent AND pin.version = decode(p_version, 'hex') AND pin.server = p_server
       AND pin.digest <> given.digest
     ORDER BY given.tool);
END $$;

-- Notes which MCP servers a worker cannot reach.
CREATE OR REPLACE FUNCTION note_mcp_away(p_worker uuid, p_away text[]) RETURNS void LANGUAGE sql AS $$
  UPDATE worker_leases SET mcp_away = p_away WHERE worker_id = p_worker AND mcp_away IS DISTINCT FROM p_away
$$;
