// The same scripted model, in memory and through a worker: the same message, and the same end.
import { mkdirSync, mkdtempSync } from 'node:fs';
import path from 'node:path';
import type { UIMessage, UIMessageChunk } from 'ai';
import { beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { type AgentDefinition, defineAgent, defineTool } from '../../agent/definition/define.ts';
import { memorySession } from '../../agent/memory/memory-session.ts';
import { run } from '../../agent/memory/run.ts';
import { canonicalJson } from '../../domain/canonical-json.ts';
import { readMessages } from '../../store/messages.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import {
  callTool,
  cut,
  fail,
  finish,
  hang,
  type ModelAction,
  report,
  say,
  think,
} from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { plain, reduced } from '../../tools/test-kit/reduce.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import faultAgent from '../faults/agent.ts';

const ATTEMPTS = 2;
const scratch = scratchDir();
mkdirSync(scratch, { recursive: true });
const again = [report({ input: 700, output: 10, cached: 100 }), callTool('x', 'look', { at: 'it' })];

interface Play {
  /** The model's answers, one per call; the last one is repeated. */
  says: ModelAction[][];
  limits?: NonNullable<AgentDefinition['limits']>;
  /** Abort as soon as this is in the answer. */
  abortAt?: string;
}

const PLAYS: Record<string, Play> = {
  text: {
    says: [[think('Hm. '), think('Well.'), say('Hello '), say('there'), report({ input: 9, output: 7, reasoning: 3 })]],
  },
  tools: {
    says: [
      [say('I look. '), callTool('x', 'look', { at: 'a' }), callTool('w', 'echo', { words: 'b' })],
      [callTool('y', 'pay', { amount: 5 })],
      [say('done')],
    ],
  },
  'a call that is sent twice': {
    says: [[callTool('x', 'echo', { words: 'a' }), callTool('x', 'echo', { words: 'a' })], [say('done')]],
  },
  'a tool that fails, bad input, and an unknown tool': {
    says: [
      [
        callTool('x', 'stumble', { words: 'no luck' }),
        callTool('y', 'look', { at: 7 }),
        callTool('z', 'lok', {}),
        callTool('v', 'look', '{"at'),
      ],
      [say('so be it')],
    ],
  },
  'tools with legal and illegal phase events': {
    says: [
      [
        callTool('x', 'build_and_deploy', { confirm_new_project: true }),
        callTool('y', 'build_and_deploy', { confirm_new_project: true }),
      ],
      [callTool('z', 'build_and_deploy', {})],
      [say('well')],
    ],
  },
  'tools that need a project, without a phase event': {
    says: [[callTool('x', 'within', {}), callTool('y', 'found', {}), callTool('z', 'remember', {})], [say('well')]],
  },
  'an output over its limit': {
    says: [[callTool('x', 'echo', { words: 'long ', times: 500 })], [say('I see')]],
    limits: { tool_output_bytes: 1_000 },
  },
  'the limit of steps': { says: [again], limits: { steps: 2 } },
  'the limit of tokens': { says: [again], limits: { tokens: 1_000 } },
  'the limit of time': { says: [[say('well'), hang()]], limits: { wall_clock_ms: 2_500 } },
  'a provider that recovers': { says: [[fail(503)], [say('here I am')]] },
  'a connection cut in mid-text': { says: [[think('lost'), say('lost words'), cut()], [say('new words')]] },
  'a connection cut in a tool’s input': { says: [[callTool('x', 'echo', '{"words":"hel'), cut()], [say('new words')]] },
  'a provider that does not recover': { says: [[say('lost words'), cut()]] },
  'a call that the output limit cuts, and then does not': {
    says: [
      [callTool('x', 'echo', '{"words":"hel'), finish('length')],
      [callTool('x', 'echo', { words: 'hel' })],
      [callTool('x', 'echo', '{"words":"lo'), finish('length')],
      [say('done')],
    ],
  },
  'calls that the output limit cuts every time': { says: [[callTool('x', 'echo', '{"words":"hel'), finish('length')]] },
  'an empty answer': { says: [[think('Hm.'), say(' \n')]] },
  'reasoning up to the output limit': { says: [[think('Hm.'), finish('length')]] },
  'an empty answer after tools': { says: [[callTool('x', 'look', { at: 'a' })], []] },
  'an answer that its provider breaks off': {
    says: [
      [
        ...[say('lost words'), callTool('x', 'look', { at: 'a' })],
        ...[report({ input: 30, output: 4 }), finish('insufficient_system_resource')],
      ],
      [say('new words'), report({ input: 30, output: 2 })],
    ],
  },
  'the limit of tokens, with those of an answer that is broken off': {
    says: [
      [say('lost words'), report({ input: 990, output: 20 }), finish('insufficient_system_resource')],
      [callTool('x', 'look', { at: 'a' }), report({ input: 30, output: 2 })],
      [say('not any more')],
    ],
    limits: { tokens: 1_000 },
  },
  'answers that its provider breaks off every time': { says: [[say('words'), finish('insufficient_system_resource')]] },
  'a provider that refuses after a step': { says: [[say('first'), callTool('x', 'look', { at: 'a' })], [fail(401)]] },
  'a provider’s content filter': { says: [[say('no'), callTool('x', 'look', { at: 'a' }), finish('content_filter')]] },
  'an abort in mid-text': { says: [[think('hm'), say('one '), hang()]], abortAt: 'one ' },
  'an abort in a tool’s input': { says: [[callTool('x', 'echo', '{"words":"hel'), hang()]], abortAt: 'hel' },
  'an abort in a tool': { says: [[say('I wait'), callTool('x', 'pause', {})]], abortAt: 'a tool at work' },
};

const pause = defineTool({
  name: 'pause',
  description: 'Reports progress, and runs until it is stopped.',
  input: z.object({}),
  execute: (_input, ctx) => {
    ctx.progress('a tool at work');
    return new Promise(() => {});
  },
});

const within = defineTool({
  name: 'within',
  description: 'Runs in a project only.',
  input: z.object({}),
  project: () => 'required',
  execute: () => 'it ran',
});

const found = defineTool({
  name: 'found',
  description: 'Asks for a new project, without an event that starts one.',
  input: z.object({}),
  project: () => 'new',
  execute: () => 'it ran',
});

const remember = defineTool({
  name: 'remember',
  description: 'Adds a todo, without a project.',
  input: z.object({}),
  execute: (_input, ctx) => ctx.todos.add('x'),
});

const agents = Object.entries(PLAYS).map(([, { limits }], at) =>
  defineAgent({
    ...faultAgent,
    tools: [...faultAgent.tools, pause, within, found, remember],
    id: `play-${at}`,
    ...(limits && { limits }),
  }),
);

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime({ agents, settings: { providerAttempts: ATTEMPTS } });
});

/** Distinguishes concurrent plays by the user's text. */
const asked = new Map<string, number>();
function script(scripts: ReadonlyMap<string, ModelAction[][]>): void {
  runtime.model.script((request) => {
    const text = lastUserText(request);
    const count = asked.get(text) ?? 0;
    asked.set(text, count + 1);
    const says = scripts.get(text)!;
    return says[Math.min(count, says.length - 1)]!;
  });
}

interface Outcome {
  parts: unknown;
  metadata: unknown;
  end: string;
}

async function inMemory(play: Play, agent: AgentDefinition): Promise<Outcome> {
  const session = memorySession({ agent, workspaceRoot: mkdtempSync(path.join(scratch, 'w-')) });
  const abort = new AbortController();
  const chunks: UIMessageChunk[] = [];
  const model = runtime.models.resolve('openai/test');
  for await (const chunk of run(session, `${agent.id} memory`, model, { signal: abort.signal, attempts: ATTEMPTS })) {
    chunks.push(chunk);
    if (play.abortAt && shown(chunk, await reduced(chunks)).includes(play.abortAt)) abort.abort();
  }
  const message = session.messages.at(-1)!;
  expect(await reduced(chunks), 'its chunks reduce to the message').toEqual(plain(message));
  const last = chunks.at(-1)!;
  const end =
    { finish: 'finished', abort: 'aborted' }[last.type as 'finish'] ?? (last as { errorText: string }).errorText;
  return normal({ parts: message.parts, metadata: message.metadata, end });
}

function shown(chunk: UIMessageChunk, message: UIMessage | undefined): string {
  return JSON.stringify([message?.parts ?? [], chunk.type === 'data-progress' ? chunk : null]);
}

async function stored(play: Play, agent: AgentDefinition): Promise<Outcome> {
  const session = await TestSession.open(runtime, { agent: agent.id });
  const seq = await session.send(`${agent.id} stored`);
  const { answer_id: answer } = await session.run(seq);
  if (play.abortAt !== undefined) {
    await eventually(async () => {
      const { rows } = await runtime.db.query('SELECT progress FROM chat_runs WHERE session_id = $1', [session.id]);
      expect(JSON.stringify([await session.parts(answer), rows])).toContain(play.abortAt);
    });
    await session.command(updates.abort);
  }
  const ended = await session.ended(seq);
  const { items } = await readMessages(runtime.db, session.id, { limit: 10, hidden: false });
  const { parts, metadata } = items.find(({ id }) => id === answer)!;
  return normal({ parts, metadata, end: ended.error_message ?? ended.state });
}

/** Without ids and the prompt's digest, which differ because the workspaces do. */
function normal(outcome: Outcome): Outcome {
  const ids = new Map<string, string>();
  const timeless = canonicalJson(outcome).replaceAll(/"decided_at":"[^"]*"/g, '"decided_at":"then"');
  const json = timeless.replaceAll(/\b(?:prt|call|prj|msg)_[0-9A-Za-z]+/g, (id) => {
    if (!ids.has(id)) ids.set(id, `${id.slice(0, 4)}${ids.size}`);
    return ids.get(id)!;
  });
  const { metadata, ...rest } = JSON.parse(json) as { metadata: Record<string, unknown> } & Omit<Outcome, 'metadata'>;
  const { system_prompt_digest, session_id: _, ...told } = metadata;
  expect(system_prompt_digest).toMatch(/^[0-9a-f]{64}$/);
  return { ...rest, metadata: told };
}

it.concurrent.each(Object.entries(PLAYS).map(([name, play], at) => [name, play, agents[at]!] as const))(
  'R1 one message, in memory and stored: %s',
  async (_name, play, agent) => {
    const scripts = new Map(
      Object.values(PLAYS).flatMap(({ says }, at) => [
        [`play-${at} memory`, says] as const,
        [`play-${at} stored`, says] as const,
      ]),
    );
    script(scripts);
    const [memory, rows] = await Promise.all([inMemory(play, agent), stored(play, agent)]);
    expect(memory).toEqual(rows);
  },
);
