// An agent whose tools append to a file, so that a test can count how often they ran.
import { appendFile, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { SUMMARIZER } from '../../agent/compaction/summarizer.ts';
import { defineAgent, defineTool, type ToolContext } from '../../agent/definition/define.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { userFolder } from '../../workspaces/paths.ts';

const TRACE = 'effects.log';
/** Longer than it takes to stop Postgres. */
const LINGER_MS = patient(1_500);

async function act(name: string, ctx: ToolContext): Promise<void> {
  await appendFile(path.join(ctx.workspaceRoot, TRACE), `${name} ${ctx.toolCallId}\n`);
}

function untilStopped({ signal }: ToolContext): Promise<never> {
  return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
}

/** The effects of the tools of a session without a project, in order: `pay call_…`. */
export async function effects(workspaces: string, sessionId: string): Promise<string[]> {
  try {
    const trace = await readFile(path.join(userFolder(workspaces, 'ada'), sessionId, TRACE), 'utf8');
    return trace.trimEnd().split('\n');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

const pay = defineTool({
  name: 'pay',
  description: 'Pays. Doing it twice costs twice.',
  input: z.object({ amount: z.number() }),
  permission: ({ amount }) => String(amount),
  async execute({ amount }, ctx) {
    await act('pay', ctx);
    ctx.state.set('paid', amount);
    return { paid: amount };
  },
});

const look = defineTool({
  name: 'look',
  description: 'Looks. It is safe to repeat.',
  input: z.object({ at: z.string() }),
  repeatable: true,
  async execute({ at }, ctx) {
    await act('look', ctx);
    return { seen: at };
  },
});

/** What `tally` keeps for its turn. */
export const draftOf = (sessionId: string): string => `nightjar of ${sessionId}`;

/** Counts in two scopes, so that a test can see how often its changes were applied. */
const tally = defineTool({
  name: 'tally',
  description: 'Counts itself. It is safe to repeat.',
  input: z.object({}),
  repeatable: true,
  async execute(_input, ctx) {
    await act('tally', ctx);
    ctx.state.increment('tally');
    ctx.state.increment(`user:tally of ${ctx.sessionId}`);
    ctx.state.set('temp:draft', draftOf(ctx.sessionId));
    return 'counted';
  },
});

const recall = defineTool({
  name: 'recall',
  description: 'Whether the draft of its turn is there.',
  input: z.object({}),
  repeatable: true,
  execute: (_input, ctx) => (ctx.state.get('temp:draft') === draftOf(ctx.sessionId) ? 'there' : 'gone'),
});

const stumble = defineTool({
  name: 'stumble',
  description: 'Fails with the given text.',
  input: z.object({ words: z.string() }),
  execute({ words }) {
    throw new Error(words);
  },
});

const echo = defineTool({
  name: 'echo',
  description: 'Returns its input, repeated.',
  input: z.object({ words: z.string(), times: z.number().optional() }),
  execute: ({ words, times }) => ({ words: words.repeat(times ?? 1) }),
});

const BAD_TEXT = 'a\0b\ud800c';

const garble = defineTool({
  name: 'garble',
  description: 'Returns text that Postgres cannot store.',
  input: z.object({}),
  execute: () => ({ [BAD_TEXT]: BAD_TEXT }),
});

const garbleError = defineTool({
  name: 'garble_error',
  description: 'Fails with text that Postgres cannot store.',
  input: z.object({}),
  execute() {
    throw new Error(BAD_TEXT);
  },
});

/** Has two effects, with time in between for a fault. */
const linger = defineTool({
  name: 'linger',
  description: 'Takes its time.',
  input: z.object({}),
  async execute(_input, ctx) {
    await act('linger', ctx);
    await delay(LINGER_MS);
    await act('linger', ctx);
    return { lingered: true };
  },
});

/** Starts a build that runs until it is stopped. */
const buildLong = defineTool({
  name: 'build_long',
  description: 'Builds for ever.',
  input: z.object({}),
  raises: { event: 'start_build', at: 'start' },
  project: () => 'new',
  execute: (_input, ctx) => untilStopped(ctx),
});

const buildQuickly = defineTool({
  name: 'build_quickly',
  description: 'Builds at once.',
  input: z.object({}),
  raises: { event: 'start_build', at: 'start' },
  project: () => 'new',
  execute: () => ({ built: true }),
});

/** Waits until it is stopped. */
const wait = defineTool({
  name: 'wait',
  description: 'Waits.',
  input: z.object({}),
  async execute(_input, ctx) {
    await act('wait', ctx);
    await untilStopped(ctx);
  },
});

const faultAgent = defineAgent({
  ...siteBuilder,
  id: 'faults',
  tools: [
    ...siteBuilder.tools,
    pay,
    look,
    stumble,
    echo,
    wait,
    buildLong,
    buildQuickly,
    garble,
    garbleError,
    linger,
    tally,
    recall,
  ],
});

/** An agent whose conversations cannot be summarized, because the model of its summarizer is not configured. */
export const unsummarizedAgents = [
  defineAgent({ ...faultAgent, id: 'unsummarized', compaction: { summarizer: 'missing' } }),
  defineAgent({ ...SUMMARIZER, id: 'missing', model: 'elsewhere/none' }),
] as const;

export default faultAgent;
