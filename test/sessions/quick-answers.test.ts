// Answers that come before the workflow has heard that its run waits. Without a sweeper, one that is overlooked is never found.
import { beforeEach, expect, it } from 'vitest';
import { createClient } from '../../client/client.ts';
import { askingAgent, askingModel, ran } from '../../tools/test-kit/asking-agent.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';

const TURNS = 30;

// Other test files in this process use the agent, too.
beforeEach(() => void ran.splice(0));

it('R5 an answer that comes with the question is not overlooked', async () => {
  const { databaseUrl: database, ...runtime } = await startRuntime({
    agents: [askingAgent],
    script: askingModel,
    settings: { sweepIntervalMs: 3_600_000 },
  });
  const client = createClient({ database, temporal: runtime.temporal });
  try {
    const session = await TestSession.open(runtime, { agent: askingAgent.id });
    const untilStreamEnds = async (run: number) => {
      for await (const _chunks of client.followInBatches('ada', session.id, run)) continue;
    };
    for (let turn = 1; turn <= TURNS; turn += 1) {
      const { run_seq: run } = await client.submit('ada', session.id, { text: 'pay 5' });
      await untilStreamEnds(run);
      const call = (await session.parts((await session.run(run)).answer_id)).find(({ type }) => type === 'tool-pay');
      await client.commands.answer('ada', session.id, { tool_call_id: String(call!['toolCallId']), decision: 'once' });
      expect((await session.ended(run)).state).toBe('finished');
      expect(ran).toHaveLength(turn);
    }
  } finally {
    await client.end();
  }
});
