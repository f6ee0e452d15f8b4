// Subagents over HTTP, and many of them at once.
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { eventsOf, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import type { TestSession } from '../../tools/test-kit/session.ts';
import { boss, helper } from './agents.ts';
import { startWithHost } from './host.ts';
import { childrenOf, play } from './kit.ts';

const MANY = 16;

let runtime: TestRuntime;
let host: TestHost;
let ada: TestCaller;
let bob: TestCaller;
beforeAll(async () => {
  ({ runtime, host } = await startWithHost([boss, { ...helper, mode: 'subagent' }], ['boss']));
  [ada, bob] = [host.as('ada'), host.as('bob')];
});

const ask = (id: string, prompt: string, background = true) =>
  callTool(id, 'task', { agent: 'helper', prompt, background });

/** A session with children that work until the gate opens. */
async function openWith(count: number): Promise<{ id: string; children: TestSession[]; gate: Gate }> {
  const gate = new Gate();
  const prompts = Array.from({ length: count }, (_, n) => ask(`call_${n}`, 'Child go'));
  runtime.model.script(
    play({
      Parent: [prompts, [say('They work.')], [say('Thanks.')]],
      Child: [
        async function* () {
          yield say('Once ');
          await gate.pass();
          yield say('upon a time');
        },
      ],
    }),
  );
  const { body } = await ada.post('/api/sessions', {});
  const id = body.session.session_id as string;
  await ada.post(`/api/sessions/${id}/messages`, { text: 'Parent go' });
  return { id, children: await childrenOf(runtime, id, count), gate };
}

describe('a child over HTTP', () => {
  it('H14 is listed only with its parent, is its owner’s to read, and takes no messages', async () => {
    const { id, children, gate } = await openWith(1);
    const child = children[0]!.id;
    const listed = async (query: string) =>
      ((await ada.get(`/api/sessions${query}`)).body.items as { session: { session_id: string } }[]).map(
        ({ session }) => session.session_id,
      );
    expect(await listed('')).not.toContain(child);
    expect(await listed(`?parent=${id}`)).toEqual([child]);
    const { body } = await ada.get(`/api/sessions/${child}`);
    expect(body.chat).toMatchObject({ parent_id: id, metadata: { task: { depth: 1 } } });
    expect((await bob.get(`/api/sessions/${child}`)).status).toBe(404);
    const refused = { status: 409, body: { code: 'ChildSession' } };
    expect(await ada.post(`/api/sessions/${child}/messages`, { text: 'hello' })).toMatchObject(refused);
    const { body: messages } = await ada.get(`/api/sessions/${child}/messages`);
    const message_id = messages.items[0].id as string;
    expect(await ada.post(`/api/sessions/${child}/rewind`, { message_id, abort: true })).toMatchObject(refused);
    expect(await ada.post(`/api/sessions/${child}/branch`, { from_message_id: message_id })).toMatchObject(refused);
    expect(await ada.post('/api/sessions', { agent: 'helper' })).toMatchObject({
      status: 422,
      body: { code: 'AgentNotConfigured' },
    });
    gate.open();
    await eventually(async () => expect((await ada.get(`/api/sessions/${id}/messages`)).body.items).toHaveLength(4));
  });

  it('P4 H14 sixteen at once: all streams are live, the parent answers commands, and an abort ends all', async () => {
    const { id, children } = await openWith(MANY);
    const reading = new AbortController();
    const streams = await Promise.all(
      children.map((child) => ada.fetch(`/api/chat/${child.id}/stream`, { signal: reading.signal })),
    );
    // Each has said something and is still open.
    const first = await Promise.all(
      streams.map(async (response) => {
        for await (const { data } of eventsOf(response)) {
          const { type, delta } = data as { type: string; delta?: string };
          if (type === 'text-delta') return delta;
        }
        return undefined;
      }),
    );
    expect(first).toEqual(Array.from({ length: MANY }, () => 'Once '));
    reading.abort();
    expect((await ada.post(`/api/sessions/${id}/archive`, { archived: true })).status).toBe(200);
    const { body } = await ada.post(`/api/sessions/${id}/abort`, {});
    expect(body.children).toHaveLength(MANY);
    for (const child of children) expect((await ada.get(`/api/sessions/${child.id}/status`)).body.state).toBe('idle');
    expect((await ada.get(`/api/sessions/${id}/messages`)).body.items).toHaveLength(2);
  });
});
