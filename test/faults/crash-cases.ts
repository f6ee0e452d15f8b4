import { expect } from 'vitest';
import type { TiedProcess } from '../../tools/dev/die-with-parent.ts';
import type { ModelAction } from '../../tools/test-kit/model-actions.ts';
import type { ChatRequest } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent from './agent.ts';
import { type CrashPoint, startWorkerProcess } from './worker-process.ts';
import { expectSound } from './sound.ts';

/** The model's answer to the nth request of a case. */
export type Saying = (nth: number, request: ChatRequest) => ModelAction[] | AsyncIterable<ModelAction>;

/** A session whose first worker crashes, and its servers. */
export interface CrashCase {
  runtime: TestRuntime;
  session: TestSession;
  /** How often the model was called. */
  modelCalls(): number;
}

/** A pool of servers without workers, so that `count` cases run at a time. */
export class Lanes {
  private readonly free: TestRuntime[] = [];
  private readonly waiting: ((runtime: TestRuntime) => void)[] = [];

  /** Call it in a beforeAll. */
  async open(count: number): Promise<void> {
    const runtimes = await Promise.all(
      Array.from({ length: count }, () =>
        // No sweeper, so that only the case's own commands wake a session.
        startRuntime({ agents: [faultAgent], settings: { sweepIntervalMs: 3_600_000 } }),
      ),
    );
    await Promise.all(runtimes.map((runtime) => runtime.first.stop()));
    this.free.push(...runtimes);
  }

  /**
   * Plays a case: starts a worker that crashes at `crashesAt`, runs `play`, and starts a second worker when the first is dead.
   * `afterwards` may await what `play` started.
   */
  async play<Begun>(options: {
    crashesAt: CrashPoint;
    model?: Saying;
    play(crashCase: CrashCase): Promise<Begun>;
    afterwards(crashCase: CrashCase, begun: Begun): Promise<void>;
  }): Promise<void> {
    const runtime = this.free.pop() ?? (await new Promise<TestRuntime>((resolve) => this.waiting.push(resolve)));
    try {
      await playOn(runtime, options);
    } finally {
      const next = this.waiting.shift();
      if (next) next(runtime);
      else this.free.push(runtime);
    }
  }
}

async function playOn<Begun>(
  runtime: TestRuntime,
  { crashesAt, model = () => [], play, afterwards }: Parameters<typeof Lanes.prototype.play<Begun>>[0],
): Promise<void> {
  const before = runtime.model.requests.length;
  runtime.model.script((request, index) => model(index - before, request));
  const session = await TestSession.open(runtime, { agent: 'faults' });
  const the: CrashCase = { runtime, session, modelCalls: () => runtime.model.requests.length - before };
  const killed: TiedProcess = await startWorkerProcess(runtime, crashesAt);
  let second: Awaited<ReturnType<TestRuntime['startWorker']>> | undefined;
  try {
    const begun = await play(the);
    expect(await killed.exited, 'the first worker is dead').toMatchObject({ signal: 'SIGKILL' });
    second = await runtime.startWorker();
    await afterwards(the, begun);
    await expectSound(runtime, session.id);
  } finally {
    await killed.stop();
    await second?.stop();
    await session.handle.terminate().catch(() => {});
  }
}
