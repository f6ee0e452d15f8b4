// A secret in a tool's output is removed from strings, and the outcome is not lost.
import { beforeAll, expect, it } from 'vitest';
import { hideSecrets } from '../../config/secrets.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent, { effects } from './agent.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  const hide = hideSecrets({ databaseUrl: 'postgres://u:123456@localhost/d' });
  runtime = await startRuntime({ agents: [faultAgent], hide });
});

it('Q3 a number that contains the password does not change the tool’s outcome', async () => {
  runtime.model.script((_request, index) =>
    index === 0
      ? [callTool('x', 'pay', { amount: 123456789 }), callTool('y', 'echo', { words: 'it is 123456!' })]
      : [say('done')],
  );
  const session = await TestSession.open(runtime, { agent: 'faults' });
  const run = await session.ended(await session.send('go'));
  expect(run.state).toBe('finished');
  expect(await session.parts(run.answer_id)).toMatchObject([
    { type: 'step-start' },
    { state: 'output-available', output: { paid: 123456789 } },
    { state: 'output-available', output: { words: 'it is [redacted]!' } },
    { type: 'step-start' },
    { text: 'done' },
  ]);
  expect(await effects(runtime.workspaces, session.id)).toHaveLength(1);
});
