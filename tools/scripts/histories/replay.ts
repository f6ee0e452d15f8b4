// Replays histories against workflow code, and says where one breaks.
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger, type InjectedSinks, Worker } from '@temporalio/worker';
import { useOwnWorkflowThreads } from '../../../worker/workflow-threads.ts';
import type { Asked, CaptureSinks } from './capture.ts';
import { attributesOf, type History, type HistoryEvent, typeOf } from './history.ts';
import { contentOf } from './payloads.ts';
import { quietRuntime } from './quiet.ts';

/** A history and the name by which people know it: its file, or its session and run. */
export interface NamedHistory {
  name: string;
  history: History;
}

export interface Replayed<Of extends NamedHistory> {
  of: Of;
  /** The event at which the code did something else than the history says, and what; undefined: it did the same. */
  broke: string | undefined;
  /** What the code asked for and answered, where the bundle has capture.ts in it. */
  asked: Asked[];
}

/** What was seen of a workflow while it replayed. */
interface Seen {
  asked: Asked[];
  /** Types of the activities asked for, by their number. */
  activities: Map<string, string>;
  /** Number of the newest event that the workflow was given. */
  upTo: number;
}

/** A bundle of workflow code that also tells what the workflow asks for. */
export function capturingBundle(workflowsPath: string): Promise<{ code: string }> {
  return bundleWorkflowCode({
    workflowsPath,
    workflowInterceptorModules: [fileURLToPath(new URL('capture.ts', import.meta.url))],
    logger: new DefaultLogger('ERROR'),
  });
}

/** Replays histories, all of them: one that breaks keeps no other from being replayed. */
export async function replay<Of extends NamedHistory>(
  workflowBundle: { codePath: string } | { code: string },
  histories: readonly Of[],
): Promise<Replayed<Of>[]> {
  quietRuntime();
  useOwnWorkflowThreads();
  const seen = new Map<string, Seen>(
    histories.map(({ name }) => [name, { asked: [], activities: new Map(), upTo: 0 }]),
  );
  const sinks: InjectedSinks<CaptureSinks> = {
    capture: {
      activated: { fn: (info, length) => activated(seen.get(info.workflowId), length), callDuringReplay: true },
      asked: { fn: (info, asked, seq) => askedFor(seen.get(info.workflowId), asked, seq), callDuringReplay: true },
    },
  };
  // A name stands in for the workflow's id, on which nothing in the workflow depends: so results are told apart.
  const source = histories.map(({ name, history }) => ({ workflowId: name, history }));
  const errors = new Map<string, Error | undefined>();
  for await (const { workflowId, error } of Worker.runReplayHistories({ workflowBundle, sinks }, source)) {
    errors.set(workflowId, error);
  }
  return histories.map((of) => {
    const one = seen.get(of.name);
    const error = errors.has(of.name) ? errors.get(of.name) : new Error('it was not replayed');
    const broke = error && `${placeOf(error.message, of.history, one)}: ${reasonOf(error.message)}`;
    return { of, broke, asked: one?.asked ?? [] };
  });
}

function activated(seen: Seen | undefined, historyLength: number): void {
  if (seen) seen.upTo = historyLength;
}

function askedFor(seen: Seen | undefined, asked: Asked, seq: number | undefined): void {
  // What comes out of the sandbox has prototypes of its own.
  seen?.asked.push(JSON.parse(JSON.stringify(asked)) as Asked);
  if (seq !== undefined) seen?.activities.set(String(seq), String(asked['activity'] ?? asked['localActivity']));
}

/** "event 8 (ActivityTaskScheduled)" */
function placeOf(message: string, history: History, seen: Seen | undefined): string {
  const named = /HistoryEvent\(id: (\d+), (\w+)\)/.exec(message);
  if (named) return `event ${named[1]} (${named[2]})`;
  const event = history.events.find((each) => isOtherActivity(each, seen));
  if (event) return `event ${event.eventId} (${typeOf(event)})`;
  // No event is to blame but the workflow task: its code threw.
  const task = history.events.find((each) => Number(each.eventId) === seen?.upTo);
  return task ? `event ${task.eventId} (${typeOf(task)})` : 'an event that the error does not name';
}

/** True for an activity in the history under whose number the code has asked for another one. */
function isOtherActivity(event: HistoryEvent, seen: Seen | undefined): boolean {
  const attributes = attributesOf(event);
  if (event.eventType === 'EVENT_TYPE_ACTIVITY_TASK_SCHEDULED') {
    const { name } = attributes['activityType'] as { name: string };
    return differs(name, seen?.activities.get(String(attributes['activityId'])));
  }
  if (attributes['markerName'] !== 'core_local_activity') return false;
  const { data } = attributes['details'] as { data: { payloads: { data: string }[] } };
  const marker = contentOf(data.payloads[0]) as { seq: number; activity_type: string };
  return differs(marker.activity_type, seen?.activities.get(String(marker.seq)));
}

function differs(recorded: string, asked: string | undefined): boolean {
  return asked !== undefined && asked !== recorded;
}

/** The one sentence of the SDK's message that says what happened. */
function reasonOf(message: string): string {
  const quoted = /message: "((?:[^"\\]|\\.)*)"/.exec(message)?.[1];
  return (quoted ?? message).replace(/^\[\w+\] /, '');
}
