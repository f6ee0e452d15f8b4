// Approvals and permission rules over HTTP, with the AI SDK's own chat.
import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from 'ai';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { manifestRules } from '../../agent/definition/define.ts';
import { type BusEvent, userMark } from '../../bus/bus.ts';
import { sendWhenAnswered } from '../../client/index.ts';
import { newId } from '../../domain/ids.ts';
import { askingAgent, askingModel, ran } from '../../tools/test-kit/asking-agent.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { eventsOf, startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';

let runtime: TestRuntime;
let host: TestHost;
let ada: TestCaller;
/** Takes shorter bodies. */
let narrow: TestHost;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [askingAgent], script: askingModel });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces, agents: ['asking'], rules: manifestRules(askingAgent) });
  ada = host.as('ada');
  narrow = await startHost({ databaseUrl, temporal, workspaces, agents: ['asking'], parts: { maxBodyBytes: 4_096 } });
});
beforeEach(() => void ran.splice(0));

type ToolPart = { type: string; toolCallId: string; state: string; approval?: { id: string } };

function page(
  id: string = newId('msg'),
  messages: UIMessage[] = [],
  onToolCall: (name: string) => void = () => {},
  {
    url = host.url,
    when = sendWhenAnswered(),
    fetch: fetching = fetch,
  }: { url?: string; when?: (chat: { messages: UIMessage[] }) => boolean; fetch?: typeof fetch } = {},
): Chat<UIMessage> {
  const headers = { 'x-perdure-user': 'ada' };
  const transport = new DefaultChatTransport({ api: `${url}/api/chat`, headers, fetch: fetching });
  return new Chat({
    ...{ id, messages, transport, sendAutomaticallyWhen: when },
    onToolCall: ({ toolCall }) => onToolCall(toolCall.toolName),
  });
}

const untilIdle = (chat: Chat<UIMessage>) =>
  eventually(async () =>
    expect((await ada.get(`/api/sessions/${chat.id}/status`)).body).toMatchObject({ state: 'idle' }),
  );

const callsIn = (message: UIMessage | undefined) =>
  (message?.parts ?? []).filter(({ type }) => type.startsWith('tool-')) as unknown as ToolPart[];

/** The page's answer equals the stored one. */
async function inStep(chat: Chat<UIMessage>): Promise<void> {
  const { body } = await ada.get(`/api/sessions/${chat.id}/messages`);
  const clean = (value: unknown) => JSON.parse(JSON.stringify(value)) as unknown;
  expect(clean(chat.lastMessage)).toEqual(clean((body.items as unknown[]).at(-1)));
}

/** Waits until the page shows the text that ends the turn. */
const settled = (chat: Chat<UIMessage>) =>
  eventually(() => {
    expect(chat.status).toBe('ready');
    expect(chat.lastMessage?.parts.at(-1)).toMatchObject({ type: 'text', state: 'done' });
  });

async function asks(chat: Chat<UIMessage>, text = 'pay 5'): Promise<ToolPart> {
  await chat.sendMessage({ text });
  const asked = callsIn(chat.lastMessage).find(({ state }) => state === 'approval-requested');
  expect(asked).toBeDefined();
  return asked!;
}

describe('the AI SDK’s chat', () => {
  it('H8 the stream ends at the question; the response continues the same message, with only what follows', async () => {
    const chat = page();
    const asked = await asks(chat, 'look, pay 5, pay 6');
    expect(chat.status).toBe('ready');
    expect((await ada.get(`/api/sessions/${chat.id}/status`)).body).toMatchObject({ state: 'waiting' });
    await chat.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
    const second = await eventually(() => {
      const found = callsIn(chat.lastMessage).find(({ state }) => state === 'approval-requested');
      if (found === undefined || chat.status !== 'ready') throw new Error('it does not ask again yet');
      return found;
    });
    await inStep(chat);
    await chat.addToolApprovalResponse({ id: second.approval!.id, approved: false, reason: 'too much' });
    await settled(chat);
    await inStep(chat);
    expect(chat.messages).toHaveLength(2);
    expect(callsIn(chat.lastMessage).map(({ state }) => state)).toEqual([
      ...['output-available', 'output-available', 'output-denied'],
    ]);
    expect(JSON.stringify(chat.lastMessage)).toContain('the user did not allow this call: too much');
    expect(ran).toHaveLength(1);
  });

  it.each([true, false])(
    'H8 the AI SDK’s own predicate sends the response of the last call: approved is %s',
    async (approved) => {
      const chat = page(newId('msg'), [], undefined, { when: lastAssistantMessageIsCompleteWithApprovalResponses });
      const asked = await asks(chat, 'look, pay 5');
      await chat.addToolApprovalResponse({ id: asked.approval!.id, approved });
      await settled(chat);
      await inStep(chat);
      expect(chat.messages).toHaveLength(2);
      expect(callsIn(chat.lastMessage).at(-1)!.state).toBe(approved ? 'output-available' : 'output-denied');
      expect(ran).toHaveLength(approved ? 1 : 0);
    },
  );

  it('H8 a replay ends at the question, too, and equals the stored message', async () => {
    const chat = page();
    await asks(chat);
    const again = page(chat.id, chat.messages.slice(0, 1));
    await again.resumeStream();
    await inStep(again);
  });

  it('H8 the same response again joins the stream; after another tab’s answer for the session, it counts as given', async () => {
    const chat = page();
    const asked = await asks(chat);
    const { messages } = chat;
    await ada.post(`/api/sessions/${chat.id}/answer`, { tool_call_id: asked.toolCallId, decision: 'session' });
    const late = page(chat.id, messages);
    await late.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
    await settled(late);
    await inStep(late);
    const other = page(chat.id, messages);
    await other.addToolApprovalResponse({ id: asked.approval!.id, approved: false });
    await eventually(() => expect(other.error?.message).toContain('it was decided \\"session\\"'));
    expect(ran).toHaveLength(1);
  });

  it('H8 a response after another tab’s answer is followed by all outcomes since then, also if it brings one itself', async () => {
    const chat = page(newId('msg'), [], undefined, { when: sendWhenAnswered({ tools: ['locate'] }) });
    const asked = await asks(chat, 'look, pay 5, look, locate');
    const { toolCallId } = callsIn(chat.lastMessage).at(-1)!;
    await chat.addToolOutput({ tool: 'locate', toolCallId, output: { place: 'here' } });
    await ada.post(`/api/sessions/${chat.id}/answer`, { tool_call_id: asked.toolCallId, decision: 'once' });
    await eventually(async () => {
      const { body } = await ada.get(`/api/sessions/${chat.id}/messages`);
      expect(callsIn((body.items as UIMessage[]).at(-1))[2]).toMatchObject({ state: 'output-available' });
      expect((await ada.get(`/api/sessions/${chat.id}/status`)).body).toMatchObject({ state: 'waiting' });
    });
    await chat.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
    await settled(chat);
    await inStep(chat);
  });

  it('H8 a response after another tab’s answers to it and to a question that this tab has not seen joins the stream', async () => {
    const chat = page();
    const asked = await asks(chat, 'pay 5, pay 6, locate');
    for (const [n, { toolCallId: tool_call_id }] of callsIn(chat.lastMessage).slice(0, 2).entries()) {
      await eventually(async () => {
        const { body } = await ada.get(`/api/sessions/${chat.id}/messages`);
        expect(callsIn((body.items as UIMessage[]).at(-1))[n]).toMatchObject({ state: 'approval-requested' });
      });
      await ada.post(`/api/sessions/${chat.id}/answer`, { tool_call_id, decision: 'once' });
    }
    await chat.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
    await eventually(() => {
      expect(chat.status).toBe('ready');
      expect(callsIn(chat.lastMessage)[1]).toMatchObject({ state: 'output-available' });
    });
    await inStep(chat);
  });

  it.each([
    ['no outcome', {}],
    ['a preliminary outcome', { state: 'output-available', output: { n: 1 }, preliminary: true }],
  ])(
    'H8 H13 an output after a lost response is followed by the outcome of the call before it, of which the page has %s',
    async (_what, shown) => {
      let isLost = false;
      const chat = page(newId('msg'), [], undefined, {
        when: sendWhenAnswered({ tools: ['locate'] }),
        fetch: async (...request) => {
          const response = await fetch(...request);
          if (!isLost) return response;
          await response.body?.cancel();
          throw new TypeError('fetch failed');
        },
      });
      await chat.sendMessage({ text: 'locate, look, locate' });
      const [first, , last] = callsIn(chat.lastMessage);
      const give = (toolCallId: string) =>
        chat.addToolOutput({ tool: 'locate', toolCallId, output: { place: 'here' } });
      isLost = true;
      await give(first!.toolCallId);
      await eventually(async () => {
        expect(chat.error?.message).toBe('fetch failed');
        const { body } = await ada.get(`/api/sessions/${chat.id}/messages`);
        expect(callsIn((body.items as UIMessage[]).at(-1))[1]).toMatchObject({ state: 'output-available' });
        expect((await ada.get(`/api/sessions/${chat.id}/status`)).body).toMatchObject({ state: 'waiting' });
      });
      isLost = false;
      const answer = structuredClone(chat.lastMessage!);
      Object.assign(callsIn(answer)[1]!, shown);
      chat.messages = [...chat.messages.slice(0, -1), answer];
      await give(last!.toolCallId);
      await chat.sendMessage();
      await settled(chat);
      await inStep(chat);
    },
  );

  it('H13 a call that a rule allows is announced to a page once, and its part has the decision', async () => {
    const chat = page();
    const { toolCallId } = await asks(chat);
    await ada.post(`/api/sessions/${chat.id}/answer`, { tool_call_id: toolCallId, decision: 'session' });
    await untilIdle(chat);
    const announced: string[] = [];
    const live = page(chat.id, [], (name) => announced.push(name));
    await live.sendMessage({ text: 'pay 5, look' });
    await settled(live);
    await inStep(live);
    expect(announced).toEqual(['pay', 'look']);
    expect(callsIn(live.lastMessage)[0]).toMatchObject({
      state: 'output-available',
      approval: { isAutomatic: true, approved: true },
      callProviderMetadata: { perdure: { permission: { rule: `rul_${toolCallId}`, decision: 'allow' } } },
    });
    // Beside a call that asks, for the page that answers it.
    const asked = await asks(live, 'pay 6, pay 5, pay 13');
    await live.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
    await settled(live);
    await inStep(live);
  });

  it('H8 H13 responds to calls of an answer that is longer than a body may be', async () => {
    const chat = page(newId('msg'), [], undefined, narrow);
    const asked = await asks(chat, `${'look, '.repeat(30)}pay 5, locate`);
    await chat.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
    await eventually(async () => {
      expect(chat.status).toBe('ready');
      expect(ran).toHaveLength(1);
      expect((await ada.get(`/api/sessions/${chat.id}/status`)).body).toMatchObject({ state: 'waiting' });
    });
    const { toolCallId } = callsIn(chat.lastMessage).at(-1)!;
    const give = (place: string) => chat.addToolOutput({ tool: 'locate', toolCallId, output: { place } });
    await give('x'.repeat(4_096));
    await chat.sendMessage();
    expect(chat.error?.message).toContain('messages[1]: expected at most 4096 bytes');
    await give('here');
    await chat.sendMessage();
    await settled(chat);
    await inStep(chat);
    expect(chat.error).toBeUndefined();
    expect(callsIn(chat.lastMessage).at(-1)).toMatchObject({ output: { place: 'here' } });
  });

  it('H8 H13 takes two outputs of a page in one step that are longer together than a body may be', async () => {
    const chat = page(newId('msg'), [], undefined, { when: sendWhenAnswered({ tools: ['locate'] }) });
    await chat.sendMessage({ text: 'locate, locate' });
    const place = 'x'.repeat(600 * 1024);
    for (const { toolCallId } of callsIn(chat.lastMessage).toReversed())
      await chat.addToolOutput({ tool: 'locate', toolCallId, output: { place } });
    await settled(chat);
    await inStep(chat);
    expect(chat.error).toBeUndefined();
    expect(callsIn(chat.lastMessage).map(({ state }) => state)).toEqual(['output-available', 'output-available']);
  });

  it('H13 sendMessage() sends a response again that has not reached the server', async () => {
    let isAway = false;
    const chat = page(newId('msg'), [], undefined, {
      fetch: (...request) => (isAway ? Promise.reject(new TypeError('fetch failed')) : fetch(...request)),
    });
    const asked = await asks(chat);
    isAway = true;
    await chat.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
    await eventually(() => expect(chat.error?.message).toBe('fetch failed'));
    isAway = false;
    await chat.sendMessage();
    await settled(chat);
    await inStep(chat);
    expect(ran).toHaveLength(1);
  });

  it('H8 an answer without a response to anything that waits is refused by name', async () => {
    const chat = page();
    await chat.sendMessage({ text: 'look' });
    const body = { id: chat.id, messages: [{ ...chat.lastMessage, parts: [] }], trigger: 'submit-message' };
    expect(await ada.post('/api/chat', body)).toMatchObject({
      status: 400,
      body: { code: 'BadRequest', errors: [{ field: 'messages[0].parts' }] },
    });
    const unknown = { ...body, messages: [{ id: 'nobody', role: 'assistant', parts: [] }] };
    expect(await ada.post('/api/chat', unknown)).toMatchObject({ status: 404, body: { code: 'MessageNotFound' } });
  });
});

describe('routes', () => {
  const at = (chat: Chat<UIMessage>, path: string) => `/api/sessions/${chat.id}/${path}`;

  it('H13 answer takes a reason, which the part and the log keep', async () => {
    const chat = page();
    const { toolCallId: tool_call_id } = await asks(chat);
    const given = { tool_call_id, decision: 'reject', reason: 'not today' };
    expect(await ada.post(at(chat, 'answer'), given)).toMatchObject({ status: 200, body: { decision: 'reject' } });
    const { body } = await ada.get(at(chat, 'messages'));
    expect(body.items[1].parts[1]).toMatchObject({
      state: 'output-denied',
      approval: { approved: false, reason: 'not today' },
    });
    const log = (await ada.get(at(chat, 'log'))).body.items as { kind: string }[];
    expect(log.filter(({ kind }) => kind.startsWith('approval'))).toMatchObject([
      { kind: 'approval_requested', actor: 'tool', data: { tool_call_id, rule: 'manifest-0' } },
      { kind: 'approval', actor: 'user', data: { tool_call_id, decision: 'reject' } },
    ]);
  });

  it('H13 an unknown decision is 400, a late one 409, and "always" without a project 400: the call goes on waiting', async () => {
    const chat = page();
    const { toolCallId: tool_call_id } = await asks(chat);
    const answer = (decision: string) => ada.post(at(chat, 'answer'), { tool_call_id, decision });
    expect(await answer('perhaps')).toMatchObject({ status: 400, body: { errors: [{ field: 'decision' }] } });
    expect(await answer('always')).toMatchObject({ status: 400, body: { code: 'ProjectRequired' } });
    expect((await ada.get(at(chat, 'status'))).body).toMatchObject({ state: 'waiting' });
    expect(await answer('once')).toMatchObject({ status: 200 });
    expect(await answer('reject')).toMatchObject({
      status: 409,
      body: { code: 'NotWaiting', detail: 'the tool call does not wait for this: it was decided "once"' },
    });
  });

  it('H13 nobody else can answer, see or take back, or learn that there is anything', async () => {
    const chat = page();
    const { toolCallId: tool_call_id } = await asks(chat);
    const { session_id: id } = chat.lastMessage!.metadata as { session_id: string };
    const eve = host.as('eve');
    const refused = { status: 404, body: { code: 'SessionNotFound' } };
    expect(await eve.post(`/api/sessions/${id}/answer`, { tool_call_id, decision: 'once' })).toMatchObject(refused);
    expect(await eve.post('/api/chat', { id, messages: [chat.lastMessage] })).toMatchObject(refused);
    expect(await eve.get(`/api/sessions/${id}/permissions`)).toMatchObject(refused);
    expect(await eve.delete(`/api/sessions/${id}/permissions/rul_1`)).toMatchObject(refused);
    expect(await eve.post(`/api/sessions/${id}/tool-outputs/${tool_call_id}`, { output: 1 })).toMatchObject(refused);
    expect((await ada.get(at(chat, 'status'))).body).toMatchObject({ state: 'waiting' });
  });

  it('H13 the rules in force are listed, and those that were made are taken back; then the call asks again', async () => {
    const chat = page();
    const { toolCallId: tool_call_id } = await asks(chat);
    const project_id = newId('prj');
    await ada.post(at(chat, 'open'), { project_id });
    await ada.post(at(chat, 'answer'), { tool_call_id, decision: 'always' });
    const second = await eventually(async () => asks(chat, 'pay 6'));
    await ada.post(at(chat, 'answer'), { tool_call_id: second.toolCallId, decision: 'session' });
    const allow = { permission: 'pay', action: 'allow' };
    const { items } = (await ada.get(at(chat, 'permissions'))).body;
    expect(items).toEqual([
      { rule_id: 'manifest-0', permission: 'pay', pattern: '*', action: 'ask', source: 'manifest' },
      { rule_id: 'manifest-1', permission: 'pay', pattern: '13', action: 'deny', source: 'manifest' },
      { rule_id: 'manifest-2', permission: 'pay', pattern: '99', action: 'ask', source: 'manifest', pinned: true },
      { rule_id: `rul_${tool_call_id}`, ...allow, pattern: '5', source: 'project' },
      { rule_id: `rul_${second.toolCallId}`, ...allow, pattern: '6', source: 'session' },
    ]);
    const revoke = (rule: string) => ada.delete(at(chat, `permissions/${rule}`));
    expect(await revoke('manifest-0')).toMatchObject({ status: 409, body: { code: 'ManifestRule' } });
    expect(await revoke(`rul_${tool_call_id}`)).toMatchObject({ status: 204 });
    expect(await revoke(`rul_${tool_call_id}`)).toMatchObject({ status: 404, body: { code: 'RuleNotFound' } });
    expect(await revoke(`rul_${second.toolCallId}`)).toMatchObject({ status: 204 });
    expect((await ada.get(at(chat, 'permissions'))).body.items).toHaveLength(3);
    const next = page();
    await ada.post('/api/chat', {
      id: next.id,
      messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'look' }] }],
    });
    await ada.post(at(next, 'open'), { project_id });
    await asks(next, 'pay 5');
  });

  it('P3 a headless session denies what asks', async () => {
    const { body } = await ada.post('/api/sessions', { headless: true });
    expect(body.chat).toMatchObject({ headless: true });
    const chat = page(String(body.session.session_id));
    await chat.sendMessage({ text: 'pay 5' });
    expect(callsIn(chat.lastMessage)[0]).toMatchObject({
      state: 'output-denied',
      approval: { isAutomatic: true, approved: false },
      callProviderMetadata: { perdure: { permission: { rule: 'manifest-0', decision: 'deny', scope: 'manifest' } } },
    });
    await inStep(chat);
    expect(ran).toEqual([]);
  });
});

describe('live', () => {
  /** The data of the next event that the test is about. */
  async function next(
    events: ReturnType<typeof eventsOf>,
    isIt: (event: string, data: Record<string, unknown>) => boolean,
  ): Promise<Record<string, unknown>> {
    for (;;) {
      const { value, done } = await events.next();
      if (done === true) throw new Error('the stream has ended');
      const data = value.data as Record<string, unknown>;
      if (isIt(value.event, data)) return data;
    }
  }

  it('R5 H13 /events tells of each call that asks, and of one that the page carries out; the status is waiting', async () => {
    const { body } = await ada.post('/api/sessions', {});
    const id = body.session.session_id as string;
    const gone = new AbortController();
    const events = eventsOf(await ada.fetch(`/api/sessions/${id}/events`, { signal: gone.signal }));
    const nextOf = (name: string) => next(events, (event) => event === name);
    const answer = (call: unknown) => ada.post(`/api/sessions/${id}/answer`, { tool_call_id: call, decision: 'once' });
    await nextOf('status');
    await ada.post(`/api/sessions/${id}/messages`, { id: 'm-live', text: 'pay 1, pay 2, locate' });
    expect(await nextOf('turn-started')).toMatchObject({ message_id: 'm-live', run_seq: 1 });
    const first = await nextOf('approval-requested');
    expect(first).toEqual({ message_id: 'm-live', run_seq: 1, tool_call_id: expect.any(String) });
    expect((await ada.get(`/api/sessions/${id}/status`)).body).toEqual({ state: 'waiting', message_id: 'm-live' });
    await answer(first['tool_call_id']);
    const second = await nextOf('approval-requested');
    expect(second['tool_call_id']).not.toBe(first['tool_call_id']);
    await answer(second['tool_call_id']);
    const { tool_call_id } = await nextOf('output-requested');
    await ada.post(`/api/sessions/${id}/tool-outputs/${String(tool_call_id)}`, { output: { place: 'here' } });
    expect(await nextOf('turn-finished')).toMatchObject({ message_id: 'm-live', outcome: 'finish' });
    gone.abort();
  });

  it('H13 /events tells once of changed rules, also in the other sessions of the project', async () => {
    const project_id = newId('prj');
    const opened = async () => {
      const { body } = await ada.post('/api/sessions', {});
      const id = body.session.session_id as string;
      await ada.post(`/api/sessions/${id}/open`, { project_id });
      return id;
    };
    const [id, other] = [await opened(), await opened()];
    const told: BusEvent[] = [];
    onTestFinished(
      runtime.bus.subscribe((event) => void ('user' in event && event.session === id && told.push(event))),
    );
    const gone = new AbortController();
    const events = eventsOf(await ada.fetch(`/api/sessions/${other}/events`, { signal: gone.signal }));
    await next(events, (event) => event === 'status');
    await ada.post(`/api/sessions/${id}/messages`, { text: 'pay 5' });
    const asked = await eventually(async () => {
      const { items } = (await ada.get(`/api/sessions/${id}/messages`)).body;
      return callsIn((items as UIMessage[]).at(-1)).find(({ state }) => state === 'approval-requested')!.toolCallId;
    });
    await ada.post(`/api/sessions/${id}/answer`, { tool_call_id: asked, decision: 'always' });
    expect(await next(events, (event) => event === 'permissions')).toEqual({});
    await ada.post(`/api/sessions/${other}/messages`, { text: 'look' });
    const after: string[] = [];
    await next(events, (event) => after.push(event) > 0 && event === 'turn-finished');
    expect(after).not.toContain('permissions');
    expect(await ada.delete(`/api/sessions/${id}/permissions/rul_${asked}`)).toMatchObject({ status: 204 });
    expect(await next(events, (event) => event === 'permissions')).toEqual({});
    // Each time by a pointer, and not only by the poll.
    const pointer = { session: id, kind: 'status', user: userMark('ada') };
    await eventually(() => expect(told).toEqual([pointer, pointer]));
    gone.abort();
  });

  it('S6 R5 rendezvous tells the user’s tabs that a session waits, and that it goes on', async () => {
    const caller = host.as('grace');
    const gone = new AbortController();
    const events = eventsOf(await caller.fetch('/api/rendezvous', { signal: gone.signal }));
    const untilState = (state: string) => next(events, (_event, data) => data['state'] === state);
    const { body } = await caller.post('/api/sessions', {});
    const id = body.session.session_id as string;
    await caller.post(`/api/sessions/${id}/messages`, { text: 'pay 5' });
    expect(await untilState('waiting')).toMatchObject({ session_id: id });
    const { items } = (await caller.get(`/api/sessions/${id}/messages`)).body;
    const [asked] = callsIn((items as UIMessage[]).at(-1));
    await caller.post(`/api/sessions/${id}/answer`, { tool_call_id: asked!.toolCallId, decision: 'reject' });
    expect(await untilState('idle')).toMatchObject({ session_id: id });
    gone.abort();
  });
});
