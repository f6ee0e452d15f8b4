// The script of a turn is the text of its user message, so that the model server needs nothing but the request:
// `yellowbird <message id> say:12+pay say:5`.
import { createHash } from 'node:crypto';
import type { ChatRequest } from '../test-kit/model-server.ts';
import type { Random } from '../test-kit/random.ts';

/** Marks all content; it must appear in no history and no log. */
export const CANARY = 'yellowbird';

/** Marks `temp:` values; once all turns are over it must be nowhere. */
export const TEMP_CANARY = 'mayfly';

/** The model of the agent, whose window takes about six turns; one for about two; and one that holds no conversation. */
export const MODELS = { usual: 'openai/chaos', small: 'openai/chaos-small', tiny: 'openai/chaos-tiny' } as const;

/** The agent of a crew that works on an initiative. */
export const CREW = 'crew';

/** Writes summaries; a request for it has no script. */
export const SUMMARIZER_MODEL = 'openai/chaos-summarizer';

/** One step of a turn: the number of text chunks, then the tools it calls. */
export interface PlannedStep {
  pieces: number;
  /** 300 ms between chunks. */
  slow: boolean;
  tools: string[];
}

const TOOLS = [
  ...['pay', 'look', 'build', 'done', 'slow_pay', 'keep', 'keep', 'ask', 'ask', 'never', 'task', 'spawn', 'note'],
] as const;

/** The text of a message whose turn has one to three steps. */
export function plannedText(random: Random, messageId: string): string {
  const steps: string[] = [];
  const calls = random.weighted({ none: 45, one: 40, two: 15 });
  if (calls !== 'none') steps.push(toolStep(random));
  if (calls === 'two') steps.push(toolStep(random));
  steps.push(`say:${random.between(4, 30)}`);
  return `${CANARY} ${messageId} ${steps.join(' ')}`;
}

/** Ends of turns of a crew: the task is completed, twice, or left; at times the work session is ended. */
const ENDINGS = {
  'say:1+complete say:2': 50,
  'say:1+complete say:0+complete say:1': 12,
  'say:1+complete say:1+decide say:1+end say:1': 18,
  'say:1': 30,
} as const;

/** The text of a message to a member of a crew, which takes a task. */
export function crewText(random: Random, messageId: string): string {
  const steps = `say:1+next say:1+start say:${random.between(1, 6)}+progress`;
  return `${CANARY} ${messageId} ${steps} ${random.weighted<keyof typeof ENDINGS>(ENDINGS)}`;
}

/** The task that a request's turn has been given last. */
export function taskIn({ messages }: ChatRequest): string {
  const turn = messages.slice(messages.findLastIndex((message) => message.role === 'user'));
  const ids = turn.filter(({ role }) => role === 'tool').flatMap((message) => textsOf(message).flatMap(taskIdIn));
  return ids.at(-1) ?? 'tsk_none';
}

function taskIdIn(output: string): string | [] {
  return /"task_id": ?"(tsk_\w+)"/.exec(output)?.[1] ?? [];
}

function toolStep(random: Random): string {
  const tools = Array.from({ length: random.chance(0.25) ? 2 : 1 }, () => random.pick(TOOLS));
  return `say:${random.between(0, 8)}+${tools.join('+')}`;
}

/** The turn and step that a request is for. */
export interface Asked {
  messageId: string;
  index: number;
  step: PlannedStep;
}

/** Parses a request: each assistant message after the last user message is a finished step. */
export function askedBy({ messages }: ChatRequest): Asked {
  const last = messages.findLastIndex((message) => message.role === 'user');
  const script = textsOf(messages[last]).findLast((text) => nameIn(text) !== undefined) ?? '';
  const messageId = nameIn(script) ?? '';
  const steps = isScript(script) ? script.split(' ').slice(2) : [];
  const index = messages.slice(last).filter((message) => message.role === 'assistant').length;
  const [say = 'say:1', ...tools] = (steps[index] ?? 'say:1').split('+');
  return { messageId, index, step: { pieces: Number(say.split(':')[1]), slow: say.startsWith('slow:'), tools } };
}

/** Ids of the user messages in a request, in order. */
export function messagesIn({ messages }: ChatRequest): string[] {
  return messages
    .filter((message) => message.role === 'user')
    .flatMap((message) => textsOf(message).flatMap((text) => nameIn(text) ?? []));
}

/** What the summarizer says in its call with this number; a later request that shows it is recognized by it. */
export function summaryText(call: number): string {
  return `${CANARY} summary-${call}.`;
}

/** The summaries in a request, as the numbers of the calls that made them. */
export function summariesIn({ messages }: ChatRequest): number[] {
  const texts = messages.filter((message) => message.role === 'user').flatMap(textsOf);
  return texts.flatMap((text) => [...text.matchAll(/\bsummary-(\d+)\./g)].map(([, number]) => Number(number)));
}

/** The content of an image or text that a user attaches: `name` makes it another one. */
export function fileContent(kind: 'image' | 'text', name: string): Buffer {
  if (kind === 'text') return Buffer.from(`${CANARY} file ${name}\n`.repeat(40));
  return Buffer.concat([PNG, Buffer.from(`${CANARY} file ${name}`)]);
}

/** The least that is accepted as a PNG image: its signature and a header of one pixel. */
const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex');

/** SHA-256 of the files in the last user message of a request: of images, and of texts without the line above them. */
export function filesIn({ messages }: ChatRequest): string[] {
  const pieces = piecesOf(messages.findLast((message) => message.role === 'user'));
  // Before it are those of messages that were not answered.
  return pieces.slice(pieces.findLastIndex(({ text = '' }) => nameIn(text) !== undefined)).flatMap((part) => {
    const { image_url: image } = part as { image_url?: { url: string } };
    if (image) return digest(Buffer.from(image.url.split(',')[1] ?? '', 'base64'));
    return part.text?.startsWith('[file ') ? digest(part.text.slice(part.text.indexOf('\n') + 1)) : [];
  });
}

/** SHA-256, in hex. */
export function digest(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function isScript(text: string): boolean {
  return text.startsWith(`${CANARY} m-`);
}

/** The name of a message with a script, or of the result of a child: `task-` and the child's session. */
function nameIn(text: string): string | undefined {
  if (isScript(text)) return text.split(' ')[1];
  const child = /^(?:R|No r)esult of agent "helper", session (ses_\w+)/.exec(text)?.[1];
  return child && `task-${child}`;
}

/** What a child is asked for by the tool call that the model calls `provider`. */
export function childText(provider: string): string {
  return `${CANARY} m-sub-${provider.slice(CANARY.length + 1)} say:3+pay slow:16`;
}

function textsOf(message: ChatRequest['messages'][number] | undefined): string[] {
  return piecesOf(message).map(({ text = '' }) => text);
}

/** The parts of a message, and the texts that were joined in one of them. */
function piecesOf(message: ChatRequest['messages'][number] | undefined): { type: string; text?: string }[] {
  const content = message?.content ?? '';
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return parts.flatMap((part) => {
    return part.text?.split(/\n\n(?=\S)/).map((text) => ({ type: 'text', text })) ?? part;
  });
}
