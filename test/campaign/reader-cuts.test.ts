// Readers that lose their connection at any moment and reconnect to either of two host processes.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { UIMessage, UIMessageChunk } from 'ai';
import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { newId } from '../../domain/ids.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { cases } from '../../tools/test-kit/cases.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import type { TestCaller } from '../../tools/test-kit/host.ts';
import { callTool, cut, fail, type ModelAction, say, saySlowly, think } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { type HostProcess, processesOn } from '../../tools/test-kit/processes.ts';
import { plain, reduced } from '../../tools/test-kit/reduce.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { read, type Read, resumedChat } from '../streams/readers.ts';

const RUNS = 12;
const AT_ONCE = 4;

/** One step: the model's reasoning, text and tool calls; `cutOff`: the provider drops the first attempt in the middle. */
interface Step {
  thought: string;
  words: string;
  calls: ('ponder' | 'todo_add' | 'no_such_tool')[];
  cutOff: boolean;
}

/** An answer and its readers. `paces`: milliseconds between the model's deltas, used in turn. */
interface Story {
  steps: Step[];
  end: 'finish' | 'error' | 'abort';
  paces: number[];
  readers: { cuts: { host: number; after: number; again: boolean }[] }[];
}

const text = fc
  .string({ unit: 'grapheme', maxLength: 60 })
  .filter((each) => each.isWellFormed() && !each.includes('\0'));
const step: fc.Arbitrary<Step> = fc.record({
  thought: fc.oneof(fc.constant(''), text),
  words: text,
  calls: fc.array(fc.constantFrom('ponder', 'todo_add', 'no_such_tool'), { maxLength: 2 }),
  cutOff: fc.oneof({ weight: 7, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
});
const story: fc.Arbitrary<Story> = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 3 }),
  end: fc.constantFrom('finish', 'finish', 'error', 'abort'),
  paces: fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 6 }),
  readers: fc.array(
    fc.record({
      cuts: fc.array(
        fc.record({
          host: fc.nat(1),
          after: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 14 })),
          again: fc.boolean(),
        }),
        { maxLength: 4 },
      ),
    }),
    { minLength: 2, maxLength: 3 },
  ),
});

const ponder = defineTool({
  name: 'ponder',
  description: 'Takes a moment, and reports its progress.',
  input: z.object({}),
  async execute(_input, { progress }) {
    progress({ done: 1 });
    await delay(60);
    return { pondered: true };
  },
});

const stories = new Map<string, Story & { tried: Set<number> }>();

async function* speak(request: ChatRequest): AsyncGenerator<ModelAction> {
  const told = stories.get(lastUserText(request))!;
  const at = request.messages
    .slice(request.messages.findLastIndex(({ role }) => role === 'user'))
    .filter(({ role }) => role === 'assistant').length;
  const current = told.steps[at];
  const isLast = at >= told.steps.length - 1;
  if (isLast && told.end === 'error') {
    yield fail(401, { message: 'no such key' });
    return;
  }
  let nth = 0;
  for (const action of actionsOf(current!, isLast)) {
    await delay(told.paces[nth++ % told.paces.length]);
    yield action;
    if (nth === 3 && current!.cutOff && !told.tried.has(at)) {
      told.tried.add(at);
      yield cut();
      return;
    }
  }
}

function actionsOf({ thought, words, calls }: Step, isLast: boolean): ModelAction[] {
  const inputs = { ponder: {}, todo_add: { name: words || 'nothing' }, no_such_tool: { words } };
  return [
    ...(thought === '' ? [] : saySlowly(thought, 7).map((each) => think((each as { text: string }).text))),
    ...saySlowly(words, 5),
    ...(isLast ? [say('.')] : calls.map((name, nth) => callTool(`call_${nth}`, name, inputs[name], 5))),
  ];
}

let runtime: TestRuntime;
let hosts: HostProcess[];
beforeAll(async () => {
  const agent = defineAgent({ ...siteBuilder, tools: [...siteBuilder.tools, ponder] });
  runtime = await startRuntime({ agents: [agent], script: speak });
  const processes = await processesOn(runtime, runtime.model.url);
  hosts = await Promise.all([processes.host(), processes.host()]);
});

/** Starts the answer of a story. */
async function begin(told: Story) {
  const user = randomUUID();
  const key = randomUUID();
  stories.set(key, { ...told, tried: new Set() });
  const callers = hosts.map((host) => host.as(user));
  const { body } = await callers[0]!.post('/api/sessions', {});
  const session = body.session.session_id as string;
  const message = { id: newId('msg'), role: 'user', parts: [{ type: 'text', text: key }] };
  const sayAgain = (caller: TestCaller) =>
    caller.fetch('/api/chat', { method: 'POST', body: JSON.stringify({ id: session, messages: [message] }) });
  await callers[0]!.post(`/api/sessions/${session}/messages`, { id: message.id, text: key });
  const rejoin = (caller: TestCaller) => caller.fetch(`/api/chat/${session}/stream`);
  return { user, session, callers, sayAgain, rejoin };
}

type Begun = Awaited<ReturnType<typeof begin>>;

/** A reader that loses each connection, reconnects by GET or by repeating the message, and finally reads to the end. */
async function reader({ callers, sayAgain, rejoin }: Begun, cuts: Story['readers'][0]['cuts']): Promise<Read[]> {
  const reads: Read[] = [];
  for (const { host, after, again } of cuts) {
    reads.push(await read(again ? sayAgain : rejoin, { through: callers[host]!, after }));
    if (reads.at(-1)!.ended) break;
  }
  reads.push(await read(sayAgain, { through: callers[cuts.length % 2]! }));
  return reads;
}

/** Expects that what a reader had received when it was cut off is a prefix of the stored message. */
async function expectBeginning(chunks: UIMessageChunk[], stored: UIMessage): Promise<void> {
  const seen = await reduced(chunks);
  for (const [at, part] of (seen?.parts ?? []).entries()) {
    const whole = stored.parts[at];
    expect(whole?.type).toBe(part.type);
    if (part.type === 'text' || part.type === 'reasoning')
      expect(whole).toMatchObject({ text: expect.stringMatching(startingWith(part.text)) });
  }
}

const startingWith = (start: string) => new RegExp(`^${RegExp.escape(start)}`, 'su');

/** Plays a story. Returns how often a chat that only resumes received the end itself. */
async function play(told: Story): Promise<number> {
  const begun = await begin(told);
  const { user, session, callers, rejoin } = begun;
  const resumed = resumedChat(session, user, [
    ...told.readers[0]!.cuts.map(({ host, after }) => ({ url: hosts[host]!.url, after: after + 1 })),
    { url: hosts[1]!.url },
  ]);
  const reading = told.readers.map(({ cuts }) => reader(begun, cuts));
  if (told.end === 'abort') {
    await delay(told.paces.reduce((sum, each) => sum + each, 0) * 2);
    await callers[1]!.post(`/api/sessions/${session}/abort`);
  }
  const reads = (await Promise.all(reading)).flat();
  await eventually(async () => expect((await rejoin(callers[0]!)).status).toBe(204));
  const { body } = await callers[1]!.get(`/api/sessions/${session}/messages`);
  const stored = (body.items as UIMessage[]).find(({ role }) => role === 'assistant');
  for (const { chunks, ended, status } of reads) {
    if (status === 204) continue;
    if (stored !== undefined) await expectBeginning(chunks, stored);
    if (ended && stored !== undefined) expect(await reduced(chunks)).toEqual(stored);
  }
  const seen = await resumed;
  if (seen !== undefined && stored !== undefined) expect(plain(seen)).toEqual(stored);
  expect(reads.some(({ ended, status }) => ended && status === 200)).toBe(true);
  return seen === undefined ? 0 : 1;
}

it('R2 T5 a reader that is cut off at any moment and reconnects to another host ends with the stored message', async () => {
  let resumed = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(story, { minLength: AT_ONCE, maxLength: AT_ONCE }), async (all) => {
      const played = await Promise.all(all.map(play));
      resumed += played.reduce((sum, each) => sum + each, 0);
    }),
    { ...cases(RUNS), endOnFailure: true },
  );
  expect(resumed, 'chats that received the end of a resumed answer').toBeGreaterThan(RUNS);
});
