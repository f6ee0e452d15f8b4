import { expect } from 'vitest';
import type { TiedProcess } from '../../tools/dev/die-with-parent.ts';
import type { ModelAction } from '../../tools/test-kit/model-actions.ts';
import type { ChatRequest } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent from './agent.ts';
import { type Death, startDoomedWorker } from './doomed.ts';
import { expectSound } from './sound.ts';

/** The model's answer to the nth request of a case. */
export type Saying = (nth: number, request: ChatRequest) => ModelAction[] | AsyncIterable<ModelAction>;

/** A session whose first worker dies, and its servers. */
export interface Rescue {
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
   * Plays a case: starts a worker that dies at `dies`, runs `play`, and starts a second worker when the first is dead.
   * `afterwards` may await what `play` started.
   */
  async rescue<Begun>(options: {
    dies: Death;
    model?: Saying;
    play(rescue: Rescue): Promise<Begun>;
    afterwards(rescue: Rescue, begun: Begun): Promise<void>;
  }): Promise<void> {
    const runtime = this.free.pop() ?? (await new Promise<TestRuntime>((resolve) => this.waiting.push(resolve)));
    try {
      await rescue(runtime, options);
    } finally {
      const next = this.waiting.shift();
      if (next) next(runtime);
      else this.free.push(runtime);
    }
  }
}

async function rescue<Begun>(
  runtime: TestRuntime,
  { dies, model = () => [], play, afterwards }: Parameters<typeof Lanes.prototype.rescue<Begun>>[0],
): Promise<void> {
  const before = runtime.model.requests.length;
  runtime.model.script((request, index) => model(index - before, request));
  const session = await TestSession.open(runtime, { agent: 'faults' });
  const the: Rescue = { runtime, session, modelCalls: () => runtime.model.requests.length - before };
  const doomed: TiedProcess = await startDoomedWorker(runtime, dies);
  let rescuer: Awaited<ReturnType<TestRuntime['startWorker']>> | undefined;
  try {
    const begun = await play(the);
    expect(await doomed.exited, 'the first worker is dead').toMatchObject({ signal: 'SIGKILL' });
    rescuer = await runtime.startWorker();
    await afterwards(the, begun);
    await expectSound(runtime, session.id);
  } finally {
    await doomed.stop();
    await rescuer?.stop();
    await session.handle.terminate().catch(() => {});
  }
}
