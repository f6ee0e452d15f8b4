import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import type { RecordedRequest } from '../../tools/test-kit/model-server.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import faultAgent, { unsummarizedAgents } from './agent.ts';
import { expectSound } from './sound.ts';
import { type CrashPoint, startWorkerProcess, WHEN_LOST } from './worker-process.ts';

/** All sessions have arrived within this time. */
const ARRIVED_MS = patient(60_000);

/** The model's answer to the nth request of a session. */
export type Saying = (nth: number) => ModelAction[];

/** A session whose first worker crashes, and its servers. */
export interface CrashCase {
  runtime: TestRuntime;
  session: TestSession;
  /** The model's requests for this session. */
  requests(): RecordedRequest[];
}

interface Member {
  crashesAt: CrashPoint;
  model: Saying;
  begin(crashCase: CrashCase): Promise<unknown>;
}

/**
 * Sessions of one worker process, which kills itself when each of them has arrived at a database call of its own. Then
 * another worker takes over. They share the process because starting one costs more than the rest of a test.
 */
export class CrashGroup {
  private readonly members: Member[] = [];

  /** Call it in the body of a file or a describe: the crash happens before its tests. */
  constructor() {
    beforeAll(() => this.crash());
  }

  /**
   * A test of one session. `play` leads it to the database call at which the worker crashes, `afterwards` checks what became
   * of it, and may await what `play` has returned in an object.
   */
  case<Begun>(options: {
    crashesAt: CrashPoint;
    model?: Saying;
    play(the: CrashCase): Promise<Begun>;
    afterwards(the: CrashCase, begun: Begun): Promise<void>;
  }): () => Promise<void> {
    const { crashesAt, model = () => [say('fine')], play, afterwards } = options;
    let begun: { the: CrashCase; result: Promise<Begun> };
    const begin = (the: CrashCase) => {
      begun = { the, result: play(the) };
      return begun.result;
    };
    this.members.push({ crashesAt, model, begin });
    return async () => {
      const { the, result } = begun;
      await afterwards(the, await result);
      await expectSound(the.runtime, the.session.id);
    };
  }

  private async crash(): Promise<void> {
    // No sweeper, so that only a case's own commands wake its session.
    const settings = { ...WHEN_LOST, sweepIntervalMs: 3_600_000 };
    const runtime = await startRuntime({ agents: [faultAgent, ...unsummarizedAgents], settings });
    await runtime.first.stop();
    const cases = await Promise.all(
      this.members.map(async (member) => {
        const session = await TestSession.open(runtime, { agent: faultAgent.id });
        // The messages of each case name its session.
        const requests = () =>
          runtime.model.requests.filter(({ body }) => JSON.stringify(body.messages).includes(session.id));
        return { member, the: { runtime, session, requests } };
      }),
    );
    runtime.model.script(({ messages }) => {
      const text = JSON.stringify(messages);
      const { member, the } = cases.find(({ the: { session } }) => text.includes(session.id))!;
      return member.model(the.requests().length - 1);
    });
    const crashesAt = Object.fromEntries(cases.map(({ member, the }) => [the.session.id, member.crashesAt]));
    const killed = await startWorkerProcess(runtime, { crashesAt });
    afterFile(killed.stop);
    const playing = cases.map(({ member, the }) => member.begin(the).then(() => killed.exited));
    const missing = delay(ARRIVED_MS, undefined, { ref: false }).then(async () => {
      const log = await readFile(path.join(runtime.workspaces, 'worker.log'), 'utf8');
      const arrived = log.split('\n').filter((line) => line.includes('"arrived"'));
      return cases
        .filter(({ the }) => !arrived.some((line) => line.includes(the.session.id)))
        .map(({ member, the }) => [the.session.id, member.crashesAt]);
    });
    const end = await Promise.race([killed.exited, Promise.all(playing), missing]);
    expect(end, 'killed when all sessions have arrived').toMatchObject({ signal: 'SIGKILL' });
    await runtime.startWorker();
  }
}

/** Sends a message and waits until the model is asked for its answer. Returns its run. */
export async function sendUntilAsked({ session, requests }: CrashCase): Promise<number> {
  const run = await session.send(`go, ${session.id}`);
  await eventually(() => expect(requests()).toHaveLength(1));
  return run;
}
