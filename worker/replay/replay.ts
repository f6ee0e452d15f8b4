// Replays histories against workflow code, and reports where one breaks.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type InjectedSinks, Worker } from '@temporalio/worker';
import { bundle, cachedBundle } from '../sandbox/bundle.ts';
import { useLeanSandbox } from '../sandbox/lean-sandbox.ts';
import type { Asked, CaptureSinks } from './capture.ts';
import { eventAttributes, type History, type HistoryEvent, typeOf } from './history.ts';
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

/** The published package contains the bundle. */
const BUILT = path.join(import.meta.dirname, 'bundle.js');
const CAPTURE = fileURLToPath(new URL('capture.ts', import.meta.url));
const CACHE = path.join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'perdure');

/** A bundle of other workflow code that includes capture.ts. */
export async function capturingBundleOf(workflowsPath: string): Promise<{ code: string }> {
  return { code: await bundle(workflowsPath, [CAPTURE]) };
}

/** A bundle of today's workflow code that includes capture.ts. */
export async function capturingBundle(): Promise<{ codePath: string }> {
  return existsSync(BUILT) ? { codePath: BUILT } : cachedBundle(CACHE, [CAPTURE]);
}

/**
 * Replays all histories: after one that breaks it goes on with the next. The results are in the order of the histories.
 * @throws {Error} the SDK ended before all of them were replayed
 */
export async function replay<Of extends NamedHistory>(
  workflowBundle: { codePath: string } | { code: string },
  histories: readonly Of[],
): Promise<Replayed<Of>[]> {
  const replayed = await Array.fromAsync(replayEach(workflowBundle, histories));
  const found = new Map(replayed.map((each) => [each.of, each]));
  return histories.map((of) => {
    const result = found.get(of);
    if (result === undefined) throw new Error(`${of.name} was not replayed`);
    return result;
  });
}

/** Replays each history as it comes; one without a workflow task, of an execution that has only been started, comes last. */
export async function* replayEach<Of extends NamedHistory>(
  workflowBundle: { codePath: string } | { code: string },
  histories: Iterable<Of> | AsyncIterable<Of>,
): AsyncGenerator<Replayed<Of>> {
  quietRuntime();
  // The SDK replays in this thread.
  useLeanSandbox();
  let current: { of: Of; seen: Seen } | undefined;
  const sinks: InjectedSinks<CaptureSinks> = {
    capture: {
      activated: { fn: (_info, length) => activated(current?.seen, length), callDuringReplay: true },
      asked: { fn: (_info, asked, seq) => askedFor(current?.seen, asked, seq), callDuringReplay: true },
    },
  };
  // The SDK would wait for ever for the first workflow task of these.
  const started: Of[] = [];
  // The SDK replays one history at a time, in this order.
  async function* source() {
    for await (const of of histories) {
      if (!of.history.events.some((event) => typeOf(event) === 'WorkflowTaskScheduled')) {
        started.push(of);
        continue;
      }
      current = { of, seen: { asked: [], activities: new Map(), upTo: 0 } };
      yield { workflowId: of.name, history: of.history };
    }
  }
  for await (const { error } of Worker.runReplayHistories({ workflowBundle, sinks }, source())) {
    if (current === undefined) continue;
    const { of, seen } = current;
    const broke = error && `${placeOf(error.message, of.history, seen)}: ${reasonOf(error.message)}`;
    yield { of, broke, asked: seen.asked };
  }
  for (const of of started) yield { of, broke: undefined, asked: [] };
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
  const attributes = eventAttributes(event);
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
