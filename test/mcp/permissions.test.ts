// Calls of MCP servers' tools under permission rules: what asks or is denied does not reach the server.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { agentWith, stdioServer } from './client.ts';
import { startHttpServer } from './http-server.ts';

/** Of both servers. */
const permissions = [{ permission: 'add', pattern: '*', action: 'deny' }] as const;
const notes = path.join(scratchDir(), 'notes');
let reached: Record<'local' | 'web', () => Promise<string[]>>;
let runtime: TestRuntime;
let client: PerdureClient;
beforeAll(async () => {
  const server = await startHttpServer();
  afterFile(() => server.close());
  const agent = agentWith(
    [
      { ...stdioServer(notes), permissions: [...permissions] },
      { name: 'web', transport: { type: 'http', url: server.url }, permissions: [...permissions] },
    ],
    {
      permissions: [
        { permission: 'local_erase', pattern: '*', action: 'allow' },
        { permission: 'web_erase', pattern: '*', action: 'allow' },
      ],
    },
  );
  reached = {
    local: async () => (await readFile(notes, 'utf8')).trim().split('\n'),
    web: () => Promise.resolve([...server.notes]),
  };
  runtime = await startRuntime({ agents: [agent] });
  client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
  afterFile(() => client.end());
});
/** The message names the tool that the model calls; then it says what came of it. */
beforeEach(() =>
  runtime.model.script((request) => {
    const last = request.messages.at(-1)!;
    return last.role === 'tool' ? [say(JSON.stringify(last.content))] : [callTool('x', lastUserText(request), {})];
  }),
);

const open = () => TestSession.open(runtime, { agent: 'with-mcp' });

async function callIn(session: TestSession, run: number) {
  const parts = await session.parts((await session.run(run)).answer_id);
  return parts.find(({ type }) => type.startsWith('tool-'));
}

/** Calls a tool that asks. Returns the part of the call, once the run waits. */
async function asked(session: TestSession, tool: string) {
  const run = await session.send(tool);
  await eventually(async () => expect((await session.run(run)).state).toBe('waiting'));
  const part = await callIn(session, run);
  const answer = async (decision: 'once' | 'session' | 'reject') => {
    const given = { tool_call_id: String(part!['toolCallId']), decision };
    await client.commands.answer(session.user, session.id, given);
    await session.ended(run);
    return callIn(session, run);
  };
  return { part, answer };
}

describe.each(['local', 'web'] as const)('of the server "%s"', (name) => {
  const calls = async (tool: string) => (await reached[name]()).filter((line) => line === tool).length;

  it('H15 P3 a tool that is marked as destructive asks by default, and runs when it is allowed once', async () => {
    const before = await calls('destroy');
    const session = await open();
    const { part, answer } = await asked(session, `${name}_destroy`);
    const rule = { rule: `mcp:${name}_destroy`, scope: 'manifest' };
    expect(part).toMatchObject({
      state: 'approval-requested',
      approval: {
        descriptor: { permission: `${name}_destroy`, pattern: '', ...rule, decisions: ['once', 'session', 'reject'] },
      },
    });
    expect(await calls('destroy')).toBe(before);
    expect(await answer('once')).toMatchObject({
      ...{ state: 'output-available', output: 'gone' },
      callProviderMetadata: { perdure: { permission: { ...rule, decision: 'once', decided_by: 'ada' } } },
    });
    expect(await calls('destroy')).toBe(before + 1);
    await asked(session, `${name}_destroy`);
  });

  it('P3 H15 what the user rejects does not reach the server, and the model is told', async () => {
    const before = await calls('destroy');
    const session = await open();
    const { answer } = await asked(session, `${name}_destroy`);
    expect(await answer('reject')).toMatchObject({ state: 'output-denied', approval: { approved: false } });
    expect(await calls('destroy')).toBe(before);
    expect(JSON.stringify(runtime.model.requests.at(-1)!.body.messages.at(-1))).toContain('did not allow this call');
  });

  it('P3 H15 what is allowed for the session is this tool with any input, and no other one', async () => {
    const before = await calls('destroy');
    const session = await open();
    await (await asked(session, `${name}_destroy`)).answer('session');
    await session.ended(await session.send(`${name}_destroy`));
    expect(await calls('destroy')).toBe(before + 2);
    await asked(session, `${name === 'web' ? 'local' : 'web'}_destroy`);
  });

  it('P3 H15 what a rule of the server’s definition denies does not reach the server', async () => {
    const session = await open();
    const run = await session.send(`${name}_add`);
    await session.ended(run);
    // The input is checked first, as that of any tool.
    expect(await callIn(session, run)).toMatchObject({ state: 'output-error' });
    runtime.model.script((request) =>
      request.messages.at(-1)!.role === 'tool' ? [say('done')] : [callTool('x', `${name}_add`, { a: 1, b: 2 })],
    );
    const again = await session.send('again');
    await session.ended(again);
    expect(await callIn(session, again)).toMatchObject({
      state: 'output-denied',
      approval: { isAutomatic: true, approved: false },
      callProviderMetadata: { perdure: { permission: { rule: `mcp:${name}:0`, decision: 'deny' } } },
    });
    expect(await calls('add')).toBe(0);
  });

  it('P3 H15 a rule of the agent that allows a destructive tool comes before the default', async () => {
    const session = await open();
    const run = await session.send(`${name}_erase`);
    expect((await session.ended(run)).state).toBe('finished');
    expect(await callIn(session, run)).toMatchObject({ state: 'output-available', output: 'gone' });
    expect(await calls('erase')).toBe(1);
  });
});

it('H15 P3 the default of a destructive tool cannot be taken back, as any rule of the manifest', async () => {
  const session = await open();
  const revoking = client.revokePermission(session.user, session.id, 'mcp:web_destroy');
  await expect(revoking).rejects.toMatchObject({ code: 'ManifestRule' });
  const { part } = await asked(session, 'web_destroy');
  expect(part).toMatchObject({ approval: { descriptor: { rule: 'mcp:web_destroy', scope: 'manifest' } } });
});
