// Turns that begin before their workflow is woken.
import { expect } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { type ModelScript, lastUserText } from '../../tools/test-kit/model-server.ts';
import type { TestRuntime } from '../../tools/test-kit/runtime.ts';
import type { TestSession } from '../../tools/test-kit/session.ts';
import { snapshotQuery } from '../../workflows/definitions.ts';

export const STEP = { type: 'step-start' };
export const said = (text: string) => ({ type: 'text', text, state: 'done' });

/** Messages, answers and workflows of one runtime. */
export class EarlyTurns {
  private readonly runtime: TestRuntime;

  constructor(runtime: TestRuntime) {
    this.runtime = runtime;
  }

  /** Answers messages by their text; others are answered at once. */
  script(answers: Record<string, ModelScript>): void {
    this.runtime.model.script((request, index) => answers[lastUserText(request)]?.(request, index) ?? [say('fine')]);
  }

  /** Accepts a message as the client does, but leaves the workflow asleep. */
  async accept(session: TestSession, text: string): Promise<{ run: number; wake: () => Promise<unknown> }> {
    const { run, message } = await session.accept(text);
    this.runtime.bus.publish({ session: session.id, run, kind: 'accepted' });
    return { run, wake: () => session.wake(run, message) };
  }

  /** Until the workflow has nothing left to do. */
  untilIdle(session: TestSession): Promise<void> {
    const idle = async () => {
      expect(await session.handle.query(snapshotQuery)).toMatchObject({ run: null, queue: [] });
    };
    return eventually(idle);
  }

  /** The requests for answers to a message. */
  requestsOf(text: string) {
    return this.runtime.model.requests.filter(({ body }) => lastUserText(body) === text);
  }

  async partsOf(session: TestSession, run: number) {
    return session.parts((await session.run(run)).answer_id);
  }
}
