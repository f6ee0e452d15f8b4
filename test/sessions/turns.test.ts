import { beforeAll, describe, expect, it } from 'vitest';
import { callTool, hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { statusQuery, updates } from '../../workflows/definitions.ts';

let runtime: TestRuntime;
beforeAll(async () => {
  runtime = await startRuntime();
});

describe('a turn', () => {
  it('W1 one message gets one answer', async () => {
    runtime.model.script(() => [say('Hello '), say('there')]);
    const session = await TestSession.open(runtime);
    const run = await session.ended(await session.send('hi'));
    expect(run.state).toBe('finished');
    expect(await session.parts(run.answer_id)).toEqual([
      { type: 'step-start' },
      { type: 'text', text: 'Hello there', state: 'done' },
    ]);
  });

  it('S5 a build moves through the phases', async () => {
    runtime.model.script((request) => {
      const tools = request.messages
        .slice(request.messages.findLastIndex((m) => m.role === 'user'))
        .filter((m) => m.role === 'tool').length;
      if (tools === 0) return [callTool('call_1', 'build_and_deploy', { confirm_new_project: true })];
      if (tools === 1) return [callTool('call_1', 'write_file', { path: 'index.html', content: '<h1>Hi</h1>' })];
      if (tools === 2) return [callTool('call_1', 'todo_complete', { name: 'build' })];
      return [say(`done with ${lastUserText(request)}`)];
    });
    const session = await TestSession.open(runtime);
    const run = await session.ended(await session.send('a site'));
    expect(await session.parts(run.answer_id)).toMatchObject([
      { type: 'step-start' },
      { type: 'tool-build_and_deploy', state: 'output-available' },
      { type: 'step-start' },
      { type: 'tool-write_file', state: 'output-available' },
      { type: 'step-start' },
      { type: 'tool-todo_complete', state: 'output-available' },
      { type: 'step-start' },
      { type: 'text', text: 'done with a site' },
    ]);
    expect(await session.row()).toMatchObject({ phase: 'verifying', pending_tool: null });
    expect(await session.command(updates.publish)).toMatchObject({ phase: 'done' });
  });

  it('R4 an abort ends the model call and keeps the text', async () => {
    runtime.model.script(() => [say('Once upon'), hang()]);
    const session = await TestSession.open(runtime);
    const before = runtime.model.requests.length;
    const seq = await session.send('a story');
    const request = await runtime.model.request(before);
    expect(await session.handle.query(statusQuery)).toMatchObject({ state: 'busy' });
    expect(await session.command(updates.abort)).toMatchObject({ aborted: true });
    await request.ended;
    const run = await session.ended(seq);
    expect(run.state).toBe('aborted');
    await expect(session.command(updates.cancel)).rejects.toThrow('Workflow Update failed');
  });

  it('W8 a workflow that an operator cancels ends, and the next message starts it again', async () => {
    runtime.model.script((request) => [say(`re ${lastUserText(request)}`)]);
    const session = await TestSession.open(runtime);
    await session.ended(await session.send('one'));
    await session.handle.cancel();
    await expect(session.handle.result()).rejects.toThrow('cancelled');
    const run = await session.ended(await session.send('two'));
    expect(await session.parts(run.answer_id)).toMatchObject([{}, { text: 're two' }]);
  });

  it('W4 a queue that is never empty does not keep a workflow from continuing as new', async () => {
    runtime.model.script(() => [say('yes')]);
    const session = await TestSession.open(runtime);
    const accepted = await Promise.all(Array.from({ length: 120 }, async (_, n) => session.accept(`message ${n}`)));
    const [first] = accepted;
    await session.wake(first!.run, first!.message);
    await Promise.all(accepted.map(({ run, message }) => session.wake(run, message).catch(() => {})));
    for (const { run } of accepted) expect((await session.ended(run, 60_000)).state).toBe('finished');
    const { historyLength } = await session.handle.describe();
    expect(historyLength).toBeLessThan(1_100);
  });
});
