// What a user's message asks the model to do, written into the message itself, so that the model's server knows it from
// the request alone: `yellowbird <message id> say:12 pay look say:5`.
import type { ChatRequest } from '../test-kit/model-server.ts';
import { lastUserText } from '../test-kit/model-server.ts';
import type { Random } from './random.ts';

/** Stands in everything that is content, and so in no history and no log. */
export const CANARY = 'yellowbird';

/** One step of a turn: how many pieces of text, and which tools it calls behind them. */
export interface PlannedStep {
  pieces: number;
  /** Its pieces come far apart. */
  slow: boolean;
  tools: string[];
}

const TOOLS = ['pay', 'look', 'build', 'done', 'slow_pay'] as const;

/** The text of a message that asks for a turn of one to three steps. */
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

/** Whose turn a request is for, and which of its steps. */
export interface Asked {
  messageId: string;
  index: number;
  step: PlannedStep;
}

/** Reads a request: a step has been made for every answer of the model behind the last user message. */
export function askedBy(request: ChatRequest): Asked {
  const [, messageId = '', ...steps] = lastUserText(request).split(' ');
  const last = request.messages.findLastIndex((message) => message.role === 'user');
  const index = request.messages.slice(last).filter((message) => message.role === 'assistant').length;
  const [say = 'say:1', ...tools] = (steps[index] ?? 'say:1').split('+');
  return { messageId, index, step: { pieces: Number(say.split(':')[1]), slow: say.startsWith('slow:'), tools } };
}

/** The ids of the user messages that a request carries, in order. */
export function messagesIn(request: ChatRequest): string[] {
  return request.messages
    .filter((message) => message.role === 'user')
    .map(({ content }) =>
      typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join(''),
    )
    .map((text) => text.split(' ')[1] ?? '');
}
