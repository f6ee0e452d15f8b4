import { z } from 'zod';
import { matches } from '../../domain/permissions.ts';
import { ruleSchema } from './rule-schema.ts';

const texts = z.record(z.string(), z.string());

const stdio = z.strictObject({
  type: z.literal('stdio'),
  /** The program, and its arguments. */
  command: z.string().min(1),
  args: z.array(z.string()).optional(),
  /** Variables besides HOME, LOGNAME, PATH, SHELL, TERM and USER, the only ones that it has of the worker's. */
  env: texts.optional(),
  cwd: z.string().min(1).optional(),
});

const http = z.strictObject({
  type: z.literal('http'),
  url: z.url({ protocol: /^https?$/, error: 'expected an http or https URL' }),
  headers: texts.optional(),
});

/** What a pattern for calls of servers' tools has to be: they ask for the empty text. */
export const MCP_PATTERN = 'expected "*": calls of the tools of MCP servers ask for the empty text';

const rule = ruleSchema.refine(({ pattern }) => matches(pattern, ''), { path: ['pattern'], error: MCP_PATTERN });

const fields = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9_-]{1,32}$/, 'expected 1 to 32 of A-Z, a-z, 0-9, _ and -'),
  transport: z.discriminatedUnion('type', [stdio, http], 'expected { type: "stdio", … } or { type: "http", … }'),
  /** The server's own names of the tools to offer; unset: all. */
  tools: z.array(z.string().min(1)).min(1).optional(),
  /** Rules for its tools, which `permission` gives by the server's own names. They count as those of the agent before its own. */
  permissions: z.array(rule).optional(),
  /** By the server's own names, in place of what its annotations say. */
  repeatable: z.record(z.string(), z.boolean()).optional(),
  /** Time limit of a call in milliseconds; unset: 60 seconds. */
  timeout: z.int().positive().optional(),
});

/** An MCP server, as `defineMcpServer` takes it. */
export const mcpServerSchema = fields.superRefine(({ tools, permissions = [] }, context) => {
  permissions.forEach(({ permission }, at) => {
    if (tools?.includes(permission) === false)
      context.addIssue({
        ...{ code: 'custom', path: ['permissions', at, 'permission'] },
        message: `expected one of its tools (${tools.join(', ')})`,
      });
  });
});

/** The definition of an MCP server. */
export type McpServerDefinition = z.infer<typeof mcpServerSchema>;

export type McpTransport = McpServerDefinition['transport'];

/** How an agent's tool is called that a server has. Other characters than tools may have become `_`. */
export function mcpToolName(server: string, tool: string): string {
  return `${server}_${tool.replaceAll(/[^A-Za-z0-9_-]/g, '_')}`;
}

/** The texts of servers that no log, row or model gets: values of headers, of variables, and of the URL's query. */
export function mcpSecrets(servers: readonly McpServerDefinition[]): string[] {
  return servers.flatMap(({ transport }) => {
    if (transport.type === 'stdio') return Object.values(transport.env ?? {});
    const { password, searchParams, search } = new URL(transport.url);
    const headers = Object.values(transport.headers ?? {});
    // Without the scheme, too, such as `Bearer`.
    const tokens = headers.flatMap((value) => value.split(' ').slice(1));
    return [...headers, ...tokens, password, search.slice(1), ...searchParams.values()];
  });
}

/** Where a server is, without its secrets. */
export function placeOf(transport: McpTransport): string {
  if (transport.type === 'stdio') return transport.command;
  const { origin, pathname } = new URL(transport.url);
  return origin + pathname;
}
