-- Tools of MCP servers as each version of an agent first saw them (store/sql/mcp.sql).
CREATE TABLE mcp_tool_pins (
  agent     text NOT NULL,
  version   bytea NOT NULL,
  server    text NOT NULL,
  tool      text NOT NULL,
  -- SHA-256 of its description, schema and annotations.
  digest    bytea NOT NULL,
  pinned_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (agent, version, server, tool)
);

-- The MCP servers that a worker cannot reach; null: it has none.
ALTER TABLE worker_leases ADD COLUMN mcp_away text[];
