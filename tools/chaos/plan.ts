// The script of a turn is the text of its user message, so that the model server needs nothing but the request:
// `yellowbird <message id> say:12+pay say:5`.
import type { ChatRequest } from '../test-kit/model-server.ts';
import { lastUserText } from '../test-kit/model-server.ts';
import type { Random } from './random.ts';

/** Marks all content; it must appear in no history and no log. */
export const CANARY = 'yellowbird';

/** One step of a turn: the number of text chunks, then the tools it calls. */
export interface PlannedStep {
  pieces: number;
  /** 300 ms between chunks. */
  slow: boolean;
  tools: string[];
}

const TOOLS = ['pay', 'look', 'build', 'done', 'slow_pay'] as const;

/** The text of a message whose turn has one to three steps. */
export function plannedText(random: Random, messageId: string): string {
  const steps: string[] = [];
  const calls = random.weighted({ none: 45, one: 40, two: 15 });
  if (calls !== 'none') steps.push(toolStep(random));
  if (calls === 'two') steps.push(toolStep(random));
  steps.push(`say:${random.between(4, 30)}`);
  return `${CANARY} ${messageId} ${steps.join(' ')}`;
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
export function askedBy(request: ChatRequest): Asked {
  const [, messageId = '', ...steps] = lastUserText(request).split(' ');
  const last = request.messages.findLastIndex((message) => message.role === 'user');
  const index = request.messages.slice(last).filter((message) => message.role === 'assistant').length;
  const [say = 'say:1', ...tools] = (steps[index] ?? 'say:1').split('+');
  return { messageId, index, step: { pieces: Number(say.split(':')[1]), slow: say.startsWith('slow:'), tools } };
}

/** Ids of the user messages in a request, in order. */
export function messagesIn(request: ChatRequest): string[] {
  return request.messages
    .filter((message) => message.role === 'user')
    .map(({ content }) =>
      typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join(''),
    )
    .map((text) => text.split(' ')[1] ?? '');
}
