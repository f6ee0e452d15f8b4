// Conversations that are longer than their model's window, and what is stored of them.
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import type { CompactionData, PruneData } from '../../domain/compaction.ts';
import { newId } from '../../domain/ids.ts';
import { callTool, type ModelAction, report, say } from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText, type ModelScript } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import type { TestSession } from '../../tools/test-kit/session.ts';
import type { updates } from '../../workflows/definitions.ts';

/** Windows in tokens: usable are 1,600 of `small`, 7,600 of `test`. */
export const CATALOG = {
  'openai/test': { context_limit: 8_000, max_output: 400 },
  'openai/small': { context_limit: 2_000, max_output: 400 },
  'openai/mini': { context_limit: 3_000, max_output: 400, tier: 1 },
};

const read = defineTool({
  name: 'read',
  description: 'Reads.',
  input: z.object({ what: z.string(), words: z.number() }),
  execute: ({ what, words }) => `${what}: ${'word '.repeat(words)}`,
});

const todo = defineTool({ ...read, name: 'todo', protected: true });

/** A runtime whose sessions begin with `small`. */
export function startSmall(options: Parameters<typeof startRuntime>[0]): Promise<TestRuntime> {
  return startRuntime({ defaultModel: 'openai/small', catalog: CATALOG, ...options });
}

/** Compacts or prunes by hand; its run finishes. Returns the id of its message. */
export async function byHand(
  session: TestSession,
  command: typeof updates.compact | typeof updates.prune,
): Promise<string> {
  const { run_seq: run, message_id: id } = await session.command(command);
  const { state, error_message: why } = await session.ended(run);
  if (state !== 'finished') throw new Error(`the run by hand ended as ${state}: ${why}`);
  return id;
}

type Compaction = NonNullable<Parameters<typeof defineAgent>[0]['compaction']>;
type Limits = NonNullable<Parameters<typeof defineAgent>[0]['limits']>;

/** An agent with these settings. Its summaries are retried quickly. */
export function agent(id: string, compaction: Compaction = {}, limits: Limits = {}) {
  return defineAgent({
    id,
    description: 'Talks.',
    mode: 'primary',
    prompt: 'You talk.',
    instructions: false,
    tools: [read, todo],
    compaction,
    limits,
  });
}

/** Whether a request is for a summary. */
export function isSummary(request: ChatRequest): boolean {
  return JSON.stringify(request.messages[0]).includes('You write the summary');
}

/** A summary that is about 30 tokens long. */
export const SUMMARY = '## Goal\nTalk.\n\n## Progress\nThey talked.\n\n## Decisions\nNone.\n\n## Next steps\nTalk on.';

/**
 * A script that summarizes with `summary`, and answers everything else: "use N tokens" reports that usage, "read a W" calls the
 * tool once with an output of W words.
 */
export function talking(summary: ModelScript = () => [say(SUMMARY), report({ input: 100, output: 30 })]): ModelScript {
  return (request, index) => (isSummary(request) ? summary(request, index) : answer(request));
}

function answer(request: ChatRequest): ModelAction[] {
  const text = lastUserText(request);
  const [, tool, what, words] = /(read|todo) (\w+) (\d+)/.exec(text) ?? [];
  const isAnswered = request.messages.at(-1)?.role === 'tool';
  if (tool !== undefined && !isAnswered)
    return [callTool('call_1', tool, { what, words: Number(words) }), ...usage(request)];
  return [say(`You said: ${text.slice(0, 20)}`), ...usage(request)];
}

/** The usage that a provider would report: about a token for four characters. */
function usage(request: ChatRequest): ModelAction[] {
  return [report({ input: Math.ceil(JSON.stringify(request.messages).length / 4), output: 10 })];
}

/** A text that has this many tokens by the usage above, and four fifths of them by a count. */
export const words = (tokens: number, topic: string) => `${topic} ${'data '.repeat(Math.floor(tokens * 0.8))}`;

/** Sends a message for a model. Returns its run. */
export async function send(session: TestSession, text: string, model: string | null = null): Promise<number> {
  const { run, message } = await session.accept(text, newId('msg'), model);
  await session.wake(run, message);
  return run;
}

/** Sends messages, one turn after the other. Returns the run of the last. */
export async function tell(session: TestSession, texts: readonly string[], model: string | null = null) {
  let last;
  for (const text of texts) {
    last = await session.ended(await send(session, text, model));
    if (last.state !== 'finished') throw new Error(`the turn ended as ${last.state}: ${last.error_message}`);
  }
  return last;
}

export interface StoredMessage {
  id: string;
  role: string;
  hidden: boolean;
  metadata: Record<string, unknown>;
  parts: ({ type: string; text?: string; data?: CompactionData & PruneData } & Record<string, unknown>)[];
}

/** All messages of a session, in order. */
export async function messages({ db }: TestRuntime, session: TestSession): Promise<StoredMessage[]> {
  const { rows } = await db.query<StoredMessage>(
    `SELECT m.id, m.role, m.hidden_at IS NOT NULL AS hidden, m.metadata, p.parts
       FROM chat_messages m,
            LATERAL (SELECT jsonb_agg(p.data ORDER BY p.index) AS parts FROM chat_parts p
                      WHERE p.session_id = m.session_id AND p.message_id = m.id) p
      WHERE m.session_id = $1 ORDER BY m.position`,
    [session.id],
  );
  return rows;
}

/** The visible messages: what the user reads, `summary` for a summary and `prune` for a prune. */
export async function visible(runtime: TestRuntime, session: TestSession): Promise<string[]> {
  const shown = (await messages(runtime, session)).filter(({ hidden }) => !hidden);
  return shown.map(({ parts }) => {
    if (parts[0]?.type.startsWith('data-')) return parts[0].type;
    return parts
      .map(({ text }) => text ?? '')
      .join('')
      .slice(0, 24)
      .trim();
  });
}

/** The requests of the model since `from`: those of the conversation, or for summaries. */
export function requests({ model }: TestRuntime, kind: 'turn' | 'summary', from = 0): ChatRequest[] {
  return model.requests.slice(from).flatMap(({ body }) => (isSummary(body) === (kind === 'summary') ? [body] : []));
}
