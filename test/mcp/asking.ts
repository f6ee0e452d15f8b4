// Asks agents as an MCP client does, with the official SDK.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import type { AgentAnswer } from '../../host/mcp/ask-agent.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import type { TestHost } from '../../tools/test-kit/host.ts';

export type AskInput = { message?: string; session?: string; message_id?: string };
export type AskOptions = Parameters<Client['request']>[2];

/** A client that is signed in as a user. */
export async function mcpClient(host: TestHost, user: string): Promise<Client> {
  const headers = { 'x-perdure-user': user };
  const client = new Client({ name: 'test', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(new URL(`${host.url}/mcp`), { requestInit: { headers } });
  await client.connect(transport);
  afterFile(() => client.close());
  return client;
}

/** Calls an agent's tool. `text` is the first block of the result. */
export async function askAgent(
  client: Client,
  tool: string,
  input: AskInput,
  options: AskOptions = {},
): Promise<{ isError: boolean | undefined; text: string; answer: AgentAnswer }> {
  const request = { method: 'tools/call' as const, params: { name: tool, arguments: input } };
  const { content, structuredContent, isError } = await client.request(request, CallToolResultSchema, options);
  const [block] = content;
  const answer = structuredContent as unknown as AgentAnswer;
  return { isError, text: block?.type === 'text' ? block.text : '', answer };
}
