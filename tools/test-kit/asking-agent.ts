// An agent whose tools ask, are denied, or are carried out by the page; and a model that calls them as its messages say.
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { callTool, type ModelAction, say } from './model-actions.ts';
import { lastUserText, type ModelScript } from './model-server.ts';
import { patient } from './patient.ts';

/** The calls that ran, with what they were given: `pay 5`. */
export const ran: string[] = [];

const amount = z.object({ amount: z.number() });

const pay = defineTool({
  name: 'pay',
  description: 'Pays. Doing it twice costs twice.',
  input: amount,
  permission: (input) => String(input.amount),
  execute(input, ctx) {
    ran.push(`${ctx.sessionId} pay ${input.amount}`);
    return { paid: input.amount };
  },
});

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({}),
  execute: () => ({ seen: 'nothing' }),
});

/** Carried out by the page. */
export const locate = defineTool({
  name: 'locate',
  description: 'Asks the page where the user is.',
  input: z.object({}),
  output: z.object({ place: z.string() }),
});

/** The same, for half a second. */
export const hurry = defineTool({
  name: 'hurry',
  description: 'Asks the page, which has little time.',
  input: z.object({}),
  timeout: patient(500),
});

/** Asks before it pays, is denied to pay 13, and must ask for 99 every time. */
export const askingAgent = defineAgent({
  id: 'asking',
  description: 'Asks.',
  mode: 'primary',
  prompt: 'You ask.',
  tools: [pay, look, locate, hurry],
  permissions: [
    { permission: 'pay', pattern: '*', action: 'ask' },
    { permission: 'pay', pattern: '13', action: 'deny' },
    { permission: 'pay', pattern: '99', action: 'ask', pinned: true },
  ],
});

/**
 * The message "pay 5, look" makes one step with these two calls; the answer after it names the outcomes as the model sees them.
 */
export const askingModel: ModelScript = (request) => {
  const after = request.messages.slice(request.messages.findLastIndex(({ role }) => role === 'user') + 1);
  const outcomes = after.filter(({ role }) => role === 'tool').map(({ content }) => JSON.stringify(content));
  if (outcomes.length > 0) return [say(`outcomes: ${outcomes.join(' ')}`)];
  return lastUserText(request).split(', ').map(callOf);
};

function callOf(text: string, n: number): ModelAction {
  const [name = '', given] = text.split(' ');
  return callTool(`call_${n}`, name, given === undefined ? {} : { amount: Number(given) });
}
