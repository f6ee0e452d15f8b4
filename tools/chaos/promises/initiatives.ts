import { isDeepStrictEqual } from 'node:util';
import { parse } from 'yaml';
import type { StateRead } from '../crew.ts';
import type { Ledger } from '../ledger.ts';
import type { RecordedState } from '../recorded-states.ts';

export interface TaskOfInitiative {
  initiative_id: string;
  task_id: string;
  status: string;
  assigned_to: string | null;
}

export interface InitiativeEvent {
  initiative_id: string;
  seq: string;
  at: Date;
  kind: string;
  command_id: string;
  data: {
    work_session?: string;
    released?: string[];
    tasks?: string[];
    outcome?: { task_id?: string; id?: string };
  };
}

/** What is known of the initiatives once the system is idle. */
export interface InitiativeEvidence {
  tasks: readonly TaskOfInitiative[];
  events: readonly InitiativeEvent[];
  recorded: readonly RecordedState[];
}

/** How long the supervisor may have been away: times since 1970 between which something that it needs was gone. */
type Outages = readonly { from: number; to: number }[];

/** To find a workflow task that went to a dead worker (10 s), a lost timer (12 s, by a sweep), and on a busy machine. */
const NOTICED_WITHIN_MS = 25_000;
/** The clock of events is read after that of the signs of life. */
const CLOCK_MS = 250;

const DONE_ONCE = 'each task of an initiative is done once or open';
const ONE_HOLDER = 'a task is held by one work session';
const HELD = 'no task is held by the dead for longer than the setting';
const EARLY = 'no work session is given up early';
const STATE_FILE = 'STATE.md equals the rows';

/** Tasks are done once or open, each by who held it; who gives no sign of life for `staleMs` loses its tasks, and nobody else. */
export function checkTasks(
  ledger: Ledger,
  { tasks, events }: InitiativeEvidence,
  { staleMs, outages }: { staleMs: number; outages: Outages },
): void {
  const log = new TaskLog(ledger, staleMs, outages);
  for (const event of events) log.add(event);
  for (const { initiative_id, task_id, status, assigned_to } of tasks) {
    const where = `initiative ${initiative_id}, task ${task_id}`;
    const times = log.completed.get(task_id) ?? 0;
    const right = status === 'completed' ? times === 1 : times === 0 && status !== 'in_progress';
    ledger.check(DONE_ONCE, where, right, () => ({ status, times }));
    const isHeld = status !== 'completed' && assigned_to !== null;
    ledger.check(HELD, where, !isHeld, () => `still held by ${assigned_to}`);
  }
}

/** Who holds which tasks, as the events say. */
class TaskLog {
  readonly completed = new Map<string, number>();
  private readonly holders = new Map<string, { holder: string; since: number }>();
  /** The last sign of life of each work session. */
  private readonly signs = new Map<string, number>();
  private readonly ledger: Ledger;
  private readonly staleMs: number;
  private readonly outages: Outages;

  constructor(ledger: Ledger, staleMs: number, outages: Outages) {
    this.ledger = ledger;
    this.staleMs = staleMs;
    this.outages = outages;
  }

  add({ initiative_id, seq, kind, at, data }: InitiativeEvent): void {
    const where = `initiative ${initiative_id}, event ${seq}`;
    const task = data.outcome?.task_id ?? '';
    const worker = `${initiative_id} ${data.work_session}`;
    const known = this.holders.get(task);
    switch (kind) {
      case 'task_assigned':
      case 'task_started': {
        // Who asks again gets the task that it has not started.
        const isFree = known === undefined || known.holder === worker;
        this.ledger.check(ONE_HOLDER, where, isFree, () => ({ task, known, worker }));
        if (known?.holder !== worker) this.holders.set(task, { holder: worker, since: at.getTime() });
        break;
      }
      case 'task_progress':
        break;
      case 'task_completed':
        this.ledger.check(ONE_HOLDER, where, known?.holder === worker, () => ({ task, known, worker }));
        this.completed.set(task, (this.completed.get(task) ?? 0) + 1);
        break;
      case 'session_crashed':
        this.crashed(where, `${initiative_id} ${data.outcome?.id}`, at.getTime());
        return this.free(data.released);
      case 'session_ended':
        return this.free(data.released);
      case 'blocker_found':
        return this.free(data.tasks);
      default:
        return undefined;
    }
    this.signs.set(worker, at.getTime());
    return undefined;
  }

  private free(tasks: readonly string[] = []): void {
    for (const task of tasks) this.holders.delete(task);
  }

  private crashed(where: string, worker: string, at: number): void {
    const held = [...this.holders].filter(([task, { holder }]) => holder === worker && !this.completed.has(task));
    const since = Math.min(...held.map(([, one]) => one.since));
    const due = Math.max(since, this.signs.get(worker) ?? 0) + this.staleMs;
    this.ledger.check(EARLY, where, at >= due - CLOCK_MS, () => `${due - at} ms before it was due`);
    const away = this.outages.reduce(
      (sum, { from, to }) => sum + Math.max(0, Math.min(to, at) - Math.max(from, due)),
      0,
    );
    const late = at - due - away;
    this.ledger.check(
      HELD,
      where,
      late <= NOTICED_WITHIN_MS,
      () => `${late} ms late, ${away} ms of outages not counted`,
    );
  }
}

/** At each moment that STATE.md was read it said what the rows said at its version. */
export function checkStateFiles(
  ledger: Ledger,
  initiative: string,
  read: readonly StateRead[],
  recorded: readonly RecordedState[],
): void {
  const states = new Map(
    recorded.filter((row) => row.initiative_id === initiative).map(({ version, state }) => [version, state]),
  );
  for (const [n, { version, text }] of read.entries()) {
    const found = shown(text);
    const wanted = states.get(version);
    ledger.check(
      STATE_FILE,
      `initiative ${initiative}, reading ${n}, version ${version}`,
      isDeepStrictEqual(found, wanted),
      () => ({
        found,
        wanted,
      }),
    );
  }
}

/** STATE.md as YAML, as far as it is compared. */
interface File {
  title: string;
  next_action: string;
  resume_context: unknown;
  position: Record<'phase' | 'phase_name' | 'plan' | 'plan_name' | 'task' | 'wave' | 'status', unknown>;
  progress: Record<
    'phases_total' | 'phases_completed' | 'current_phase_tasks' | 'current_phase_completed' | 'bar',
    unknown
  >;
  decisions: Record<string, unknown>[];
  blockers: Record<string, unknown>[];
  sessions: Record<string, unknown>[];
}

/** What STATE.md says, in the form of what is recorded. */
function shown(text: string): unknown {
  const { title, next_action, resume_context, position: at, progress, ...lists } = parse(text) as File;
  const { bar: _, ...counts } = progress;
  return {
    ...{ title, next_action, resume_context },
    position: [at.phase, at.phase_name, at.plan, at.plan_name, at.task, at.wave, at.status],
    progress: [
      ...[counts.phases_total, counts.phases_completed],
      ...[counts.current_phase_tasks, counts.current_phase_completed],
    ],
    decisions: rowsOf(lists.decisions, ['context', 'decision', 'reason']),
    blockers: rowsOf(lists.blockers, ['id', 'status', 'description', 'workaround']),
    sessions: rowsOf(lists.sessions, ['id', 'status', 'session_id', 'working_on', 'notes', 'completed']),
  };
}

function rowsOf(rows: readonly Record<string, unknown>[], names: readonly string[]): unknown[] {
  return rows.map((row) => names.map((name) => row[name] ?? null));
}
