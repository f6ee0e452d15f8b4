import { describe, expect, it } from 'vitest';
import { memorySession } from '../memory/memory-session.ts';
import { type AgentDefinition, defineAgent, defineMcpServer, defineTool, manifestRules } from './define.ts';
import { type McpServerDefinition, mcpSecrets, type McpTransport, placeOf } from './mcp-server-definition.ts';

const transport = { type: 'http', url: 'https://user:hunter22@tickets.example/mcp?key=in-the-query' } as const;
const tickets: McpServerDefinition = { name: 'tickets', transport };
const agent: AgentDefinition = { id: 'a', description: 'A.', mode: 'primary', prompt: 'Hi.', tools: [] };

it.each([
  ['name', { name: 'a b' }, /MCP server "a b": name: expected 1 to 32/],
  ['transport', { transport: { type: 'pipe' } }, /transport\.?.*: expected \{ type: "stdio"/],
  ['URL', { transport: { type: 'http', url: 'ftp://a' } }, /transport\.url: expected an http or https URL/],
  ['header', { transport: { ...transport, headers: { a: undefined } } }, /transport\.headers\.a: /],
  ['command', { transport: { type: 'stdio' } }, /transport\.command: /],
  ['time limit', { timeout: 0 }, /timeout: /],
  ['unknown field', { tool: ['x'] }, /MCP server "tickets": tool: no such field/],
  [
    'action of a rule',
    { permissions: [{ permission: 'read', pattern: '*', action: 'maybe' }] },
    /MCP server "tickets": permissions\.0\.action: expected "allow"/,
  ],
  [
    'pattern of a rule',
    { permissions: [{ permission: 'read', pattern: 'a*', action: 'deny' }] },
    /permissions\.0\.pattern: expected "\*"/,
  ],
  [
    'tool of a rule',
    { tools: ['read'], permissions: [{ permission: 'write', pattern: '*', action: 'deny' }] },
    /permissions\.0\.permission: expected one of its tools \(read\)/,
  ],
])('H15 an invalid %s of a server is named', (_field, wrong, message) => {
  const server = { ...tickets, ...wrong } as McpServerDefinition;
  expect(() => defineMcpServer(server)).toThrow(message);
});

it('H15 an invalid server is named as a field of the agent', () => {
  expect(() => defineAgent({ ...agent, mcp: [{ ...tickets, timeout: -1 }] })).toThrow('agent "a": mcp.0.timeout: ');
});

it('H15 two servers of an agent have different names, and their tools others than the agent’s', () => {
  expect(() => defineAgent({ ...agent, mcp: [tickets, tickets] })).toThrow(
    'agent "a": mcp: the name "tickets" is used twice',
  );
  const own = defineTool({
    name: 'tickets_read',
    description: 'Reads.',
    input: { type: 'object' },
    execute: () => null,
  });
  const read = { ...tickets, tools: ['read'] };
  expect(() => defineAgent({ ...agent, tools: [own], mcp: [read] })).toThrow(
    'mcp: the tool name "tickets_read" of the MCP server "tickets" is one of the agent\'s own tools',
  );
});

describe('a rule of an agent', () => {
  const deny = { pattern: '*', action: 'deny' } as const;

  it('P3 H15 names no tool that no server can have', () => {
    const mcp = [
      { ...tickets, tools: ['read'] },
      { ...tickets, name: 'web' },
    ];
    const withRule = (permission: string) => defineAgent({ ...agent, mcp, permissions: [{ ...deny, permission }] });
    expect(() => withRule('tickets_write')).toThrow(
      'agent "a": permissions.0.permission: expected the name of one of its tools (tickets_read, web_…)',
    );
    expect(() => withRule('tickets_read')).not.toThrow();
    expect(() => withRule('web_write')).not.toThrow();
  });

  it('P3 H15 has no pattern that calls of servers’ tools never match', () => {
    const permissions = [{ permission: 'tickets_read', pattern: '/etc/*', action: 'deny' }] as const;
    expect(() => defineAgent({ ...agent, mcp: [tickets], permissions: [...permissions] })).toThrow(
      'agent "a": permissions.0.pattern: expected "*"',
    );
  });

  it('P3 H15 comes after those of its servers, which have ids of their own and the model’s names', () => {
    const server = { ...tickets, permissions: [{ ...deny, permission: 'read.all' }] };
    expect(manifestRules({ mcp: [server], permissions: [{ ...deny, permission: 'tickets_read' }] })).toEqual([
      { ...deny, rule_id: 'mcp:tickets:0', permission: 'tickets_read_all', source: 'manifest' },
      { ...deny, rule_id: 'manifest-0', permission: 'tickets_read', source: 'manifest' },
    ]);
  });
});

it('H15 headers, variables, passwords and the query are secrets, and the place of a server has none', () => {
  const headers = { authorization: 'Bearer abc-def' };
  const local: McpTransport = { type: 'stdio', command: 'npx', args: ['server'], env: { KEY: 'of-the-process' } };
  const servers = [
    { ...tickets, transport: { ...transport, headers } },
    { name: 'b', transport: local },
  ];
  expect(mcpSecrets(servers)).toEqual(
    expect.arrayContaining(['Bearer abc-def', 'abc-def', 'hunter22', 'in-the-query', 'of-the-process']),
  );
  expect(placeOf(transport)).toBe('https://tickets.example/mcp');
  expect(placeOf(local)).toBe('npx');
});

it('H15 a session in memory has no servers', () => {
  const given = { agent: { ...agent, mcp: [tickets] }, workspaceRoot: '.' };
  expect(() => memorySession(given)).toThrow('agent "a": mcp: a session in memory has no MCP servers');
});
