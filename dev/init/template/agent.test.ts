import { runTurn, scriptedModel } from 'perdure/testing';
import { expect, it } from 'vitest';
import agents from './agent.ts';

it('rolls the dice and passes the result to the model', async () => {
  const model = scriptedModel([{ calls: [{ tool: 'roll', input: { dice: 3 } }] }, 'There you are.']);
  const turn = await runTurn({ agent: agents[0]!, model, text: 'Roll three dice.' });
  expect(turn.text).toBe('There you are.');
  expect(turn.calls).toEqual([
    { tool: 'roll', input: { dice: 3 }, output: { thrown: expect.any(Array), sum: expect.any(Number) } },
  ]);
  // What the model was shown in its second step ends with the result of the tool.
  expect(model.doStreamCalls[1]?.prompt.at(-1)?.role).toBe('tool');
});

it('tells the model that an input is not possible', async () => {
  const model = scriptedModel([{ calls: [{ tool: 'roll', input: { dice: 0 } }] }, 'Sorry.']);
  const turn = await runTurn({ agent: agents[0]!, model, text: 'Roll no dice.' });
  expect(turn.calls).toEqual([expect.objectContaining({ tool: 'roll', error: expect.stringContaining('dice') })]);
});
