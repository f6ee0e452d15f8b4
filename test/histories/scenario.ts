// Types of recorded scenarios, and steps that scenarios share.
import { setTimeout as delay } from 'node:timers/promises';
import { newId } from '../../domain/ids.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { callTool, hang, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import type { ModelScript } from '../../tools/test-kit/model-server.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import type { RuntimeOptions, TestRuntime } from '../../tools/test-kit/system.ts';
import { updates } from '../../workflows/definitions.ts';
import faultAgent from '../faults/agent.ts';

/** What has a workflow with its id. */
export type Recorded = Pick<TestSession, 'id' | 'handle'>;

/** A scenario whose histories are recorded. It has its own servers and worker. */
export interface Scenario {
  /** Name of its files. */
  name: string;
  options?: RuntimeOptions;
  /** Plays it; returns the session or initiative whose histories are recorded, or several. */
  play(runtime: TestRuntime): Promise<Recorded | Recorded[]>;
}

/** A text in every kind of content of the scenarios; no history may contain it. */
export const CANARY = 'canary-7f3a';

/** A script that gives these answers in order; the last one is repeated. */
export function inOrder(...answers: ModelAction[][]): ModelScript {
  let next = 0;
  return () => answers[Math.min(next++, answers.length - 1)] ?? [];
}

export const words = [say(`Certainly. ${CANARY}`)];

/** Builds a site: the three tool calls that lead from chatting to verifying, one per step. */
export const build: ModelAction[][] = [
  [callTool('call_1', 'build_and_deploy', { confirm_new_project: true, name: CANARY })],
  [callTool('call_1', 'write_file', { path: 'index.html', content: `<h1>${CANARY}</h1>` })],
  [callTool('call_1', 'todo_complete', { name: 'build' })],
  [say('It is built.')],
];

/** A session of ada with all the tools that scenarios need. */
export function open(runtime: TestRuntime): Promise<TestSession> {
  return TestSession.open(runtime, { agent: faultAgent.id });
}

/** Sends a message and waits for the end of its run. */
export async function turn(session: TestSession, text = `Please. ${CANARY}`): Promise<void> {
  await session.ended(await session.send(text));
}

/** A turn whose model hangs while streaming. Returns its run once the first text is stored. */
export async function hangingTurn(runtime: TestRuntime, session: TestSession): Promise<number> {
  runtime.model.script(() => [say(`Once upon a time. ${CANARY}`), hang()]);
  const run = await session.send(`A story. ${CANARY}`);
  await atWork(session, run);
  return run;
}

/** Waits until the answer of a run has text. */
async function atWork(session: TestSession, run: number): Promise<void> {
  const { answer_id: answer } = await session.run(run);
  await eventually(async () => {
    if (!(await session.parts(answer)).some((part) => part.type === 'text')) throw new Error('no words yet');
  });
}

/** Waits for a phase. */
export async function inPhase(session: TestSession, phase: string): Promise<void> {
  await eventually(async () => {
    const row = await session.row();
    if (row.phase !== phase) throw new Error(`the phase is ${row.phase}`);
  });
}

/** Waits until the event log has this many of a kind. */
export async function logged({ db }: TestRuntime, session: TestSession, kind: string, count: number): Promise<void> {
  await eventually(async () => {
    const sql = 'SELECT FROM session_events WHERE session_id = $1 AND kind = $2';
    const { rowCount } = await db.query(sql, [session.id, kind]);
    if (rowCount! < count) throw new Error(`${rowCount} events of kind ${kind}`);
  });
}

/** Sends a command that is refused. */
export async function refused(command: Promise<unknown>): Promise<void> {
  const outcome = await command.then(
    () => 'carried out',
    () => 'refused',
  );
  if (outcome !== 'refused') throw new Error('a command that should be refused was carried out');
}

/** Closes a session, with retries, because the server refuses an update that arrives as the workflow ends. */
export async function close(session: TestSession, args: { abort?: boolean } = {}): Promise<void> {
  const command = { ...args, command_id: newId('cmd') };
  await eventually(() => session.command(updates.close, command));
  await session.handle.result();
}

/** Waits until the workflow has nothing scheduled and nothing to do, so that its history is complete. */
export async function quiet(session: Recorded): Promise<void> {
  let length = -1;
  await eventually(async () => {
    const { raw } = await session.handle.describe();
    const events = Number(raw.workflowExecutionInfo?.historyLength);
    // The first workflow task of an execution that continues another one may be delayed.
    const isQuiet =
      (raw.pendingActivities ?? []).length === 0 && !raw.pendingWorkflowTask && events === length && events > 1;
    length = events;
    if (isQuiet) return;
    await delay(50);
    throw new Error('the session is still at work');
  });
}
