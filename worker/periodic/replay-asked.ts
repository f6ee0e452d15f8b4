import type { Client } from '@temporalio/client';
import proto from '@temporalio/proto';
import type pg from 'pg';
import type { Logger } from 'pino';
import { claimReplay, finishReplay, releaseReplay, type ReplayResult } from '../../store/replays.ts';
import { type ListedExecution, listExecutions } from '../replay/history.ts';
import type { GivenHistory } from '../replay/process.ts';
import { REPLAY_MS, replayElsewhere } from '../replay/replay-elsewhere.ts';

/** Of one session: enough for some thirty executions that continued as new after about 300 events. */
const MOST = { executions: 50, events: 10_000, bytes: 16 * 1024 ** 2 };
/** For all requests to Temporal of one replay. */
const FETCH_MS = 20_000;
/** A replay that was claimed this long ago was lost with its worker. */
const LOST_AFTER_MS = FETCH_MS + REPLAY_MS + 10_000;
/** A replay that as many workers have lost is not tried again. */
const MOST_ATTEMPTS = 3;

interface ReplayDeps {
  db: pg.Pool;
  client: Client;
  /** The id of this worker. */
  worker: string;
  log: Logger;
}

type Executions = ReplayResult['executions'];

/**
 * Carries out a replay that somebody has asked for in the console, if there is one: replays the histories of a session against
 * this worker's workflow code, in a process of their own. A worker that stops gives it back.
 */
export async function replayAsked({ db, client, worker, log }: ReplayDeps, signal: AbortSignal): Promise<void> {
  const claimed = await claimReplay(db, worker, LOST_AFTER_MS);
  if (claimed === undefined) return;
  const { session_id: session, attempt } = claimed;
  const result =
    attempt > MOST_ATTEMPTS ? failed(`${MOST_ATTEMPTS} workers were lost`) : await outcomeOf(client, session, signal);
  if (signal.aborted) return releaseReplay(db, worker, claimed);
  await finishReplay(db, worker, claimed, result);
  const broken = result.executions.filter(({ outcome }) => outcome === 'broke').length;
  log.info({ session, executions: result.executions.length, broken, problem: result.problem }, 'replayed a session');
}

function failed(problem: string): ReplayResult {
  return { executions: [], problem };
}

async function outcomeOf(client: Client, session: string, signal: AbortSignal): Promise<ReplayResult> {
  const found = await client.connection
    .withDeadline(Date.now() + FETCH_MS, () => historiesOf(client, session))
    .catch(() => undefined);
  if (found === undefined) return failed('the histories could not be read from Temporal');
  const given = found.flatMap(({ history }) => (history ? [history] : []));
  const answered = given.length === 0 ? { broke: [] } : await replayElsewhere(given, signal);
  if ('problem' in answered) return failed(answered.problem);
  const broke = new Map(given.map(({ name }, at) => [name, answered.broke[at] ?? null]));
  return { executions: found.map((one) => executionOf(one, broke.get(one.execution.runId))), problem: null };
}

/** @param broke undefined: it was not replayed */
function executionOf({ execution, events }: Found, broke: string | null | undefined): Executions[number] {
  return {
    run_id: execution.runId,
    started_at: execution.startTime.toISOString(),
    events,
    outcome: broke === undefined ? 'skipped' : broke === null ? 'passed' : 'broke',
    broke: broke ?? null,
  };
}

/** An execution with its history, unless that would be more than `MOST`. */
interface Found {
  execution: ListedExecution;
  events: number;
  history: GivenHistory | undefined;
}

/** The newest executions of a session, newest first. One at a time: the worker has turns to run. */
async function historiesOf(client: Client, session: string): Promise<Found[]> {
  const left = { events: MOST.events, bytes: MOST.bytes };
  const found: Found[] = [];
  for (const execution of await listExecutions(client, { limit: MOST.executions, workflowId: session })) {
    const handle = client.workflow.getHandle(session, execution.runId);
    const { historyLength: events, historySize = 0 } = await handle.describe();
    left.events -= events;
    left.bytes -= historySize;
    const isTooLong = left.events < 0 || left.bytes < 0;
    found.push({ execution, events, history: isTooLong ? undefined : await historyOf(handle, execution.runId) });
  }
  return found;
}

async function historyOf(handle: ReturnType<Client['workflow']['getHandle']>, name: string): Promise<GivenHistory> {
  const { History } = proto.temporal.api.history.v1;
  return { name, bytes: History.encode(await handle.fetchHistory()).finish() };
}
