// A provider that stops talking, and keeps its connection open.
import { beforeAll, expect, it } from 'vitest';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { agent, requests, send, startSmall, SUMMARY, talking, tell, visible, words } from './kit.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startSmall({
    agents: [agent('talker')],
    providerIdleMs: patient(500),
  });
});

it('R6 in the middle of an answer: the step is tried again, and T5 keeps the two apart', async () => {
  const from = runtime.model.requests.length;
  runtime.model.script((_request, index) => (index === from ? [say('lost words'), hang()] : [say('new words')]));
  const session = await TestSession.open(runtime, { agent: 'talker' });
  const run = await session.ended(await send(session, 'hello'));
  expect(run.state).toBe('finished');
  expect(await session.parts(run.answer_id)).toMatchObject([
    { type: 'step-start' },
    { type: 'text', text: 'lost words' },
    { type: 'data-interrupted' },
    { type: 'step-start' },
    { type: 'text', text: 'new words' },
  ]);
});

it('R6 in the middle of a summary: the summarizer is asked again', async () => {
  let asked = 0;
  runtime.model.script(talking(() => (asked++ === 0 ? [say('## Goal'), hang()] : [say(SUMMARY)])));
  const session = await TestSession.open(runtime, { agent: 'talker' });
  await tell(session, [words(550, 'one'), words(550, 'two'), 'three', 'four']);
  const from = runtime.model.requests.length;
  await tell(session, [words(500, 'five')]);
  expect(requests(runtime, 'summary', from)).toHaveLength(2);
  expect(await visible(runtime, session)).toContain('data-compaction');
});
