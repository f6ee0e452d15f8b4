// Replays histories against workflow code, and reports where one breaks.
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger, type InjectedSinks, Worker } from '@temporalio/worker';
import { useOwnWorkflowThreads } from '../../../worker/workflow-threads.ts';
import type { Asked, CaptureSinks } from './capture.ts';
import { attributesOf, type History, type HistoryEvent, typeOf } from './history.ts';
import { contentOf } from './payloads.ts';
import { quietRuntime } from './quiet.ts';

/** A history and its display name: its file, or its session and run. */
export interface NamedHistory {
  name: string;
  history: History;
}

export interface Replayed<Of extends NamedHistory> {
  of: Of;
  /** The event at which the code differs from the history, and how; undefined: it replays. */
  broke: string | undefined;
  /** What the code scheduled and returned, if the bundle includes capture.ts. */
  asked: Asked[];
}

/** Observations during a replay. */
interface Seen {
  asked: Asked[];
  /** Types of scheduled activities, by their sequence number. */
  activities: Map<string, string>;
  /** Number of the newest event that the workflow has processed. */
  upTo: number;
}

/** A bundle of workflow code that includes capture.ts. */
export function capturingBundle(workflowsPath: string): Promise<{ code: string }> {
  return bundleWorkflowCode({
    workflowsPath,
    workflowInterceptorModules: [fileURLToPath(new URL('capture.ts', import.meta.url))],
    logger: new DefaultLogger('ERROR'),
  });
}

/** Replays all histories, also after one breaks. */
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
  // The name is passed as the workflow id, on which no workflow code depends, to match results to histories.
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
  // Values from the sandbox have other prototypes.
  seen?.asked.push(JSON.parse(JSON.stringify(asked)) as Asked);
  if (seq !== undefined) seen?.activities.set(String(seq), String(asked['activity'] ?? asked['localActivity']));
}

/** "event 8 (ActivityTaskScheduled)" */
function placeOf(message: string, history: History, seen: Seen | undefined): string {
  const named = /HistoryEvent\(id: (\d+), (\w+)\)/.exec(message);
  if (named) return `event ${named[1]} (${named[2]})`;
  const event = history.events.find((each) => isOtherActivity(each, seen));
  if (event) return `event ${event.eventId} (${typeOf(event)})`;
  // No other event is named: the code threw in this workflow task.
  const task = history.events.find((each) => Number(each.eventId) === seen?.upTo);
  return task ? `event ${task.eventId} (${typeOf(task)})` : 'an event that the error does not name';
}

/** True for an activity in the history for whose number the code has scheduled another type. */
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

/** The sentence of the SDK's message that says what happened. */
function reasonOf(message: string): string {
  const quoted = /message: "((?:[^"\\]|\\.)*)"/.exec(message)?.[1];
  return (quoted ?? message).replace(/^\[\w+\] /, '');
}
