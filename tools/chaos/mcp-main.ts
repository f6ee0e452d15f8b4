// The MCP server of a campaign, over HTTP; it is killed and frozen like other processes. It notes each call before it answers.
import { appendFileSync } from 'node:fs';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { z } from 'zod';
import { startHttpServer } from '../../test/mcp/http-server.ts';
import type { ServerRun } from './agents.ts';

function notes(): McpServer {
  const server = new McpServer({ name: 'notes', version: '1.0.0' });
  server.registerTool('write', { description: 'Writes a note.', inputSchema: { what: z.string() } }, ({ what }) => {
    const run: ServerRun = { provider: what };
    const file = process.env['CHAOS_TOOL_LOG'];
    if (file !== undefined) appendFileSync(file, `${JSON.stringify(run)}\n`);
    return { content: [{ type: 'text', text: 'written' }] };
  });
  return server;
}

await startHttpServer({ port: Number(process.env['PORT']), make: notes });
process.once('SIGTERM', () => process.exit(0));
console.log(JSON.stringify({ level: 30, msg: 'ready' }));
