// Tool calls that the page carries out, with a worker, Temporal and a host.
import { Chat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { problemOf } from '../../client/chat.ts';
import { sendWhenAnswered } from '../../client/index.ts';
import { newId } from '../../domain/ids.ts';
import { askingAgent, askingModel, locate } from '../../tools/test-kit/asking-agent.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';

const paying = new Gate();
/** Its tool `pay` ends only when the test is over. */
const slowAgent = defineAgent({
  ...askingAgent,
  id: 'slow',
  tools: [
    ...askingAgent.tools.filter(({ name }) => name !== 'pay'),
    defineTool({
      name: 'pay',
      description: 'Pays slowly.',
      input: z.object({ amount: z.number() }),
      execute: () => paying.pass().then(() => ({})),
    }),
  ],
});

/** Asks before the page may carry out `locate`. */
const strictAgent = defineAgent({
  ...askingAgent,
  id: 'strict',
  permissions: [{ permission: locate.name, pattern: '*', action: 'ask' }],
});

let runtime: TestRuntime;
let host: TestHost;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [askingAgent, slowAgent, strictAgent], script: askingModel });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces, agents: ['asking', 'slow', 'strict'] });
});

/** A session whose turn waits for the page to carry out a call. */
async function waiting(text: string): Promise<{ session: TestSession; run: number; call: string }> {
  const session = await TestSession.open(runtime, { agent: askingAgent.id });
  const run = await session.send(text);
  await eventually(async () => expect((await session.run(run)).state).toBe('waiting'));
  const { answer_id: answer } = await session.run(run);
  const call = (await session.parts(answer)).find(({ type }) => type.startsWith('tool-'))!;
  return { session, run, call: String(call['toolCallId']) };
}

async function callOf({ session, run }: { session: TestSession; run: number }) {
  const { answer_id: answer } = await session.run(run);
  return (await session.parts(answer)).find(({ type }) => type.startsWith('tool-'));
}

const give = ({ session, call }: { session: TestSession; call: string }, body: object, user = 'ada') =>
  host.as(user).post(`/api/sessions/${session.id}/tool-outputs/${call}`, body);

it('P5 the output that a page gives ends the call, once; another one is refused', async () => {
  const turn = await waiting('locate');
  expect((await give(turn, { output: { place: 'here' } }, 'eve')).status).toBe(404);
  expect((await give(turn, { output: { place: 'here' } })).status).toBe(200);
  await turn.session.ended(turn.run);
  expect(await callOf(turn)).toMatchObject({ state: 'output-available', output: { place: 'here' } });
  const late = await give(turn, { output: { place: 'there' } });
  expect(late).toMatchObject({
    status: 409,
    body: { code: 'NotWaiting', detail: 'the tool call does not wait for this: another output was given' },
  });
  expect(await callOf(turn)).toMatchObject({ output: { place: 'here' } });
});

it('P5 the same output again is answered as the first time, whatever the tool’s schema has left of it', async () => {
  const turn = await waiting('locate');
  const sent = { output: { place: 'here', accuracy: 5 } };
  const first = await give(turn, sent);
  expect(first.status).toBe(200);
  const again = async () => expect(await give(turn, sent)).toMatchObject({ status: 200, body: first.body });
  await again();
  await turn.session.ended(turn.run);
  expect(await callOf(turn)).toMatchObject({ output: { place: 'here' } });
  await again();
  expect(await give(turn, { output: { place: 'here' } })).toMatchObject({ status: 409, body: { code: 'NotWaiting' } });
});

it('H13 an abort ends the wait; what the page gives then is refused', async () => {
  const turn = await waiting('locate');
  expect(await turn.session.command(updates.abort)).toMatchObject({ aborted: true, run_seq: turn.run });
  expect((await turn.session.ended(turn.run)).state).toBe('aborted');
  expect(await callOf(turn)).toMatchObject({ state: 'input-available' });
  expect((await give(turn, { output: { place: 'here' } })).status).toBe(409);
});

it('W8 a run that waits for a page survives the end of its workflow: the output starts it again', async () => {
  const turn = await waiting('locate');
  await turn.session.handle.terminate();
  expect((await give(turn, { output: { place: 'here' } })).status).toBe(200);
  expect((await turn.session.ended(turn.run)).state).toBe('finished');
  expect(await callOf(turn)).toMatchObject({ state: 'output-available', output: { place: 'here' } });
});

it('P5 an output that is not what the tool promises, and an error of the page, are errors that the model sees', async () => {
  const turn = await waiting('locate');
  await give(turn, { output: { place: 7 } });
  await turn.session.ended(turn.run);
  expect(await callOf(turn)).toMatchObject({
    state: 'output-error',
    errorText: expect.stringMatching(/The page returned something else than "locate" promises: place/),
  });
  const other = await waiting('locate');
  await give(other, { error: 'no permission to know the place' });
  await other.session.ended(other.run);
  expect(await callOf(other)).toMatchObject({ state: 'output-error', errorText: 'no permission to know the place' });
  expect(JSON.stringify(runtime.model.requests.at(-1)!.body.messages)).toContain('no permission to know the place');
});

const LATE = {
  state: 'output-error',
  errorText: 'The page of the user did not carry out this call in time.',
};

it('P5 a page that is too late: the call ends as an error, the turn goes on, and an output is refused', async () => {
  const session = await TestSession.open(runtime, { agent: askingAgent.id });
  const run = await session.send('hurry');
  expect((await session.ended(run)).state).toBe('finished');
  const call = await callOf({ session, run });
  expect(call).toMatchObject(LATE);
  expect(await give({ session, call: String(call!['toolCallId']) }, { output: 'here' })).toMatchObject({
    status: 409,
    body: {
      code: 'NotWaiting',
      detail: 'the tool call does not wait for this: it has ended without an output of the page',
    },
  });
});

it('P5 R7 a page that is too late after an hour: the turn, which has less time, goes on without a failed attempt', async () => {
  const { session, run, call } = await waiting('pay 5, locate');
  const answer = () => session.command(updates.answer, { tool_call_id: call, decision: 'once' });
  await answer();
  await eventually(async () => expect(await session.run(run)).toMatchObject({ waiting: { for: 'output' } }));
  await runtime.db.query(
    `UPDATE chat_runs
        SET started_at = started_at - interval '1 hour',
            waiting = waiting || jsonb_build_object('since', (waiting ->> 'since')::timestamptz - interval '1 hour',
                                                    'until', (waiting ->> 'until')::timestamptz - interval '1 hour')
      WHERE session_id = $1`,
    [session.id],
  );
  // A repeat makes the workflow look at the call that waits now, as its timer does.
  await answer();
  expect((await session.ended(run)).state).toBe('finished');
  const { answer_id: id } = await session.run(run);
  expect((await session.parts(id)).find(({ type }) => type === 'tool-locate')).toMatchObject(LATE);
  const { events } = await session.handle.fetchHistory();
  const failed = events!.filter(
    ({ activityTaskFailedEventAttributes: end, activityTaskStartedEventAttributes: start }) =>
      end ?? start?.lastFailure,
  );
  expect(failed).toEqual([]);
});

it('W8 a page that is too late for a run whose workflow was terminated: the sweeper starts it again', async () => {
  const session = await TestSession.open(runtime, { agent: askingAgent.id });
  const run = await session.send('hurry');
  await eventually(async () => expect((await session.run(run)).state).toBe('waiting'));
  await session.handle.terminate();
  expect((await session.ended(run)).state).toBe('finished');
  expect(await callOf({ session, run })).toMatchObject(LATE);
});

it('P5 a worker that stops while a call waits: another one goes on with the output', async () => {
  const turn = await waiting('locate');
  await runtime.first.stop();
  await runtime.startWorker();
  expect((await give(turn, { output: { place: 'elsewhere' } })).status).toBe(200);
  await turn.session.ended(turn.run);
  expect(await callOf(turn)).toMatchObject({ state: 'output-available', output: { place: 'elsewhere' } });
});

it('P5 a worker whose tool has a function by now takes the output that the page has given, and does not run it', async () => {
  const own = await startRuntime({ agents: [askingAgent], script: askingModel });
  const session = await TestSession.open(own, { agent: askingAgent.id });
  const run = await session.send('locate');
  await eventually(async () => expect((await session.run(run)).state).toBe('waiting'));
  await own.first.stop();
  let runs = 0;
  const { output: _output, ...locating } = locate;
  const executes = { ...locating, execute: () => ({ place: `run ${(runs += 1)}` }) };
  const tools = askingAgent.tools.map((tool) => (tool.name === locate.name ? executes : tool));
  await own.startWorker({ agents: [{ ...askingAgent, tools }] });
  const { answer_id: answer } = await session.run(run);
  const call = (await session.parts(answer)).find(({ type }) => type.startsWith('tool-'))!;
  await own.db.query('SELECT give_output($1, $2, $3, $4)', [
    ...[session.id, 'ada', call['toolCallId'], JSON.stringify({ output: { place: 'here' } })],
  ]);
  expect((await session.ended(run)).state).toBe('finished');
  expect(await callOf({ session, run })).toMatchObject({ state: 'output-available', output: { place: 'here' } });
  expect(runs).toBe(0);
});

/** A page with the AI SDK's chat, which carries out `locate` as soon as it hears of the call, unless it is `late`. */
function page(
  sendAutomaticallyWhen: (chat: { messages: UIMessage[] }) => boolean,
  { late = false, agent }: { late?: boolean; agent?: string } = {},
) {
  const headers = { 'x-perdure-user': 'ada' };
  const calls: string[] = [];
  const sent: unknown[] = [];
  const counting: typeof fetch = (url, init) => {
    sent.push(url);
    return fetch(url, init);
  };
  const chat: Chat<UIMessage> = new Chat<UIMessage>({
    id: newId('msg'),
    transport: new DefaultChatTransport({
      ...{ api: `${host.url}/api/chat`, headers, fetch: counting },
      body: { agent: agent ?? (late ? slowAgent.id : askingAgent.id) },
    }),
    sendAutomaticallyWhen,
    onToolCall: ({ toolCall: { toolName, toolCallId } }) => {
      calls.push(toolName);
      if (toolName !== 'locate' || late) return;
      const place = calls.filter((each) => each === 'locate').length;
      void chat.addToolOutput({ tool: 'locate', toolCallId, output: { place: `place ${place}` } });
    },
  });
  return { chat, calls, sent };
}

const callsOf = (chat: Chat<UIMessage>) =>
  chat.lastMessage!.parts.filter((part) => isToolUIPart(part)).map((part) => [part.state, part.output]);

/** Waits until the page shows the text that ends the turn. */
const settled = (chat: Chat<UIMessage>) =>
  eventually(() => {
    expect(chat.status).toBe('ready');
    expect(chat.lastMessage?.parts.at(-1)).toMatchObject({ type: 'text', state: 'done' });
  });

const partIn = (chat: Chat<UIMessage>, state: string) =>
  chat.lastMessage!.parts.filter((part) => isToolUIPart(part)).find((part) => part.state === state)!;

const PLACE = ['output-available', { place: 'place 1' }];

it('H8 addToolOutput of the AI SDK gives the output, and the stream continues the same message', async () => {
  const { chat, calls } = page(lastAssistantMessageIsCompleteWithToolCalls);
  await chat.sendMessage({ text: 'look, locate' });
  await settled(chat);
  expect(calls).toEqual(['look', 'locate']);
  expect(chat.messages).toHaveLength(2);
  expect(callsOf(chat)).toEqual([['output-available', { seen: 'nothing' }], PLACE]);
});

it.each([
  ['locate, look', [PLACE, ['output-available', { seen: 'nothing' }]]],
  ['locate, locate', [PLACE, ['output-available', { place: 'place 2' }]]],
  ['pay 13, locate', [['output-denied', undefined], PLACE]],
])('H8 sendWhenAnswered sends each output of a page whose turn it is: %s', async (text, outcomes) => {
  const { chat } = page(sendWhenAnswered({ tools: ['locate'] }));
  await chat.sendMessage({ text });
  await settled(chat);
  expect(chat.messages).toHaveLength(2);
  expect(callsOf(chat)).toEqual(outcomes);
});

it('H8 H13 an output of a page that is made before an earlier call is approved is sent after that', async () => {
  const { chat } = page(sendWhenAnswered({ tools: ['locate'] }));
  await chat.sendMessage({ text: 'pay 5, locate' });
  await chat.addToolApprovalResponse({ id: partIn(chat, 'approval-requested').approval!.id, approved: true });
  await settled(chat);
  expect(chat.messages).toHaveLength(2);
  expect(callsOf(chat)).toEqual([['output-available', { paid: 5 }], PLACE]);
});

it('P5 the same output again, by the route after the AI SDK’s chat, is answered as the first time', async () => {
  const { chat } = page(sendWhenAnswered({ tools: ['locate'] }));
  await chat.sendMessage({ text: 'locate' });
  await settled(chat);
  const { toolCallId } = partIn(chat, 'output-available');
  const again = (output: object) =>
    host.as('ada').post(`/api/sessions/${chat.id}/tool-outputs/${toolCallId}`, { output });
  expect(await again({ place: 'place 1' })).toMatchObject({ status: 200 });
  expect(await again({ place: 'place 2' })).toMatchObject({ status: 409, body: { code: 'NotWaiting' } });
});

it('H8 H13 a call of the page that asks first is carried out after its approval', async () => {
  const { chat, sent } = page(sendWhenAnswered({ tools: ['locate'] }), { late: true, agent: strictAgent.id });
  await chat.sendMessage({ text: 'locate' });
  const { approval, toolCallId } = partIn(chat, 'approval-requested');
  await chat.addToolApprovalResponse({ id: approval!.id, approved: true });
  await eventually(() => {
    expect(chat.status).toBe('ready');
    expect(partIn(chat, 'approval-responded')).toMatchObject({ toolCallId });
    expect(sent).toHaveLength(2);
  });
  await chat.addToolOutput({ tool: 'locate', toolCallId, output: { place: 'place 1' } });
  await settled(chat);
  expect(chat.messages).toHaveLength(2);
  expect(callsOf(chat)).toEqual([PLACE]);
  expect(partIn(chat, 'output-available')).toMatchObject({
    callProviderMetadata: { perdure: { permission: { rule: 'manifest-0', decision: 'once' } } },
  });
  expect(sent).toHaveLength(3);
});

/** Waits until what a page has sent for an aborted answer is refused, with so many requests of the page in all. */
async function refusedAfterAbort({ chat, sent }: ReturnType<typeof page>, requests: number): Promise<void> {
  await eventually(() => {
    expect(chat.status).toBe('error');
    expect(problemOf(chat.error)).toMatchObject({
      code: 'NotWaiting',
      detail: 'the tool call does not wait for this: its turn was aborted',
    });
  });
  expect(sent).toHaveLength(requests);
}

it('H8 H13 an output for an answer that was aborted is refused by name, and the AI SDK does not send it again', async () => {
  const tab = page(lastAssistantMessageIsCompleteWithToolCalls, { late: true });
  await tab.chat.sendMessage({ text: 'look, locate' });
  await host.as('ada').post(`/api/sessions/${tab.chat.id}/abort`, {});
  const { toolCallId } = partIn(tab.chat, 'input-available');
  await tab.chat.addToolOutput({ tool: 'locate', toolCallId, output: { place: 'here' } });
  await refusedAfterAbort(tab, 2);
});

it('H8 H13 an approval that the AI SDK sends again, because the answer was aborted while the call ran, is refused by name', async () => {
  onTestFinished(() => paying.open());
  const tab = page(lastAssistantMessageIsCompleteWithApprovalResponses, { late: true });
  await tab.chat.sendMessage({ text: 'look, pay 5' });
  const { approval } = partIn(tab.chat, 'approval-requested');
  await tab.chat.addToolApprovalResponse({ id: approval!.id, approved: true });
  await paying.reached;
  await host.as('ada').post(`/api/sessions/${tab.chat.id}/abort`, {});
  await refusedAfterAbort(tab, 3);
});
