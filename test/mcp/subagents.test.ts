// What the MCP tools of agents report while subagents wait.
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import type { TestHost } from '../../tools/test-kit/host.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import { subagentAgents } from '../subagents/agents.ts';
import { startWithHost } from '../subagents/host.ts';
import { childrenOf, play } from '../subagents/kit.ts';
import { askAgent, type AskInput, mcpClient } from './asking.ts';

let runtime: TestRuntime;
let host: TestHost;
let client: Client;
beforeAll(async () => {
  ({ runtime, host } = await startWithHost(subagentAgents, ['owner']));
  client = await mcpClient(host, 'ada');
});

const ask = (input: AskInput) => askAgent(client, 'ask_owner', input);
const task = (agent: string, prompt: string, background = false) =>
  callTool('call_1', 'task', { agent, prompt, background });
const pays = [[callTool('call_1', 'pay', { amount: 5 })], [say('It is done.')]];

describe('a turn whose subagent waits', () => {
  it('H15 H14 for an approval is reported with what answering takes; then its answer is read', async () => {
    runtime.model.script(play({ Parent: [[task('payer', 'Child go')], [say('It works.')]], Child: pays }));
    const { answer, isError } = await ask({ message: 'Parent go' });
    const [child] = await childrenOf(runtime, answer.session_id);
    const waiting_for = {
      ...{ for: 'approval', tool: 'pay', tool_call_id: expect.any(String) as string },
      ...{ session_id: child!.id, agent: 'payer' },
    };
    expect(isError).toBeFalsy();
    expect(answer).toMatchObject({ state: 'waiting', waiting_for });
    const { session_id: session, message_id } = answer;
    expect((await ask({ session, message_id })).answer).toEqual(answer);
    const { tool_call_id } = answer.waiting_for as { tool_call_id: string };
    const sent = { tool_call_id, decision: 'once' };
    expect((await host.as('ada').post(`/api/sessions/${session}/answer`, sent)).status).toBe(200);
    const { answer: read } = await ask({ session, message_id });
    expect(read).toEqual({ session_id: session, message_id, state: 'finished', text: 'It works.' });
  });

  it('H15 H14 for a page is reported too, also of a subagent’s subagent that works in its background', async () => {
    const finds = [[callTool('call_1', 'locate', {})], [say('Here.')]];
    runtime.model.script(
      play({
        Parent: [[task('payer', 'Child go')], [say('It works.')]],
        Child: [[task('finder', 'Grandchild go', true)], [say('Soon.')], [say('Now.')]],
        Grandchild: finds,
      }),
    );
    const { answer } = await ask({ message: 'Parent go' });
    const waiting_for = { for: 'output', tool: 'locate', agent: 'finder' };
    expect(answer).toMatchObject({ state: 'waiting', waiting_for });
    const { session_id: session } = answer;
    const { tool_call_id } = answer.waiting_for as { tool_call_id: string };
    await host.as('ada').post(`/api/sessions/${session}/tool-outputs/${tool_call_id}`, { output: { place: 'here' } });
    expect((await ask({ session })).answer).toMatchObject({ state: 'finished', text: 'It works.' });
  });
});

it('H14 H15 a turn that is over tells that a subagent waits which it has called in the background', async () => {
  runtime.model.script(
    play({ Parent: [[task('payer', 'Child go', true)], [say('It works.')], [say('Thanks.')]], Child: pays }),
  );
  const { session_id: session, message_id } = (await ask({ message: 'Parent go' })).answer;
  const asked = { for: 'approval', tool: 'pay', agent: 'payer' };
  const waiting = await eventually(async () => {
    const { answer } = await ask({ session, message_id });
    expect(answer).toMatchObject({ state: 'finished', text: 'It works.', waiting_for: asked });
    return answer;
  });
  const { tool_call_id } = waiting.waiting_for as { tool_call_id: string };
  await host.as('ada').post(`/api/sessions/${session}/answer`, { tool_call_id, decision: 'once' });
  await eventually(async () => {
    const { answer } = await ask({ session });
    expect(answer).toEqual({
      session_id: session,
      message_id: expect.any(String),
      state: 'finished',
      text: 'Thanks.',
    });
  });
});
