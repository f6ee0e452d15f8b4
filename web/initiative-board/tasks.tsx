import { memo, useMemo, useState } from 'react';
import type { StatusOf } from '../../domain/initiatives/machines.ts';
import type { Initiative, InitiativeBlocker, InitiativeView, WorkSession } from '../../wire/initiative-views.ts';
import { TASK_WORDS } from '../initiative-parts/initiative-words.ts';
import { PhasePlans } from './phase-plans.tsx';

type Status = StatusOf<'task'>;

/** In the order in which they matter. */
const STATUSES: readonly Status[] = ['in_progress', 'blocked', 'open', 'completed'];

interface Props {
  phases: InitiativeView['phases'];
  position: Initiative['state']['position'];
  sessions: readonly WorkSession[];
  blockers: readonly InitiativeBlocker[];
}

/** The phases with their plans and tasks; of all tasks or of those with one status. */
export const Tasks = memo(function Tasks({ phases, position, sessions, blockers }: Props) {
  const [only, setOnly] = useState<Status>();
  const workers = useMemo(() => new Map(sessions.map((session) => [session.id, session])), [sessions]);
  const held = useMemo(() => blockersOfTasks(blockers), [blockers]);
  const tasks = useMemo(() => phases.flatMap(({ plans }) => plans.flatMap((plan) => plan.tasks)), [phases]);
  const count = (status: Status) => tasks.filter((task) => task.status === status).length;
  const isNone = only !== undefined && count(only) === 0;
  return (
    <section id="tasks" aria-labelledby="tasks-title" tabIndex={-1}>
      <h2 id="tasks-title">Tasks</h2>
      <div className="commands" role="group" aria-label="Show tasks">
        <button type="button" aria-pressed={only === undefined} onClick={() => setOnly(undefined)}>
          All {tasks.length}
        </button>
        {STATUSES.map((status) => (
          <button key={status} type="button" aria-pressed={only === status} onClick={() => setOnly(status)}>
            <span className="mark" data-status={status} /> {TASK_WORDS[status]} {count(status)}
          </button>
        ))}
      </div>
      {isNone && <p className="note">No task is {TASK_WORDS[only].toLowerCase()}.</p>}
      {phases.map((phase) => (
        <PhasePlans
          key={phase.phase}
          phase={phase}
          here={phase.phase === position.phase ? position.task_id : undefined}
          only={only}
          workers={workers}
          held={held}
        />
      ))}
    </section>
  );
});

/** The active blocker of each blocked task; of several the last. */
function blockersOfTasks(blockers: readonly InitiativeBlocker[]): ReadonlyMap<string, string> {
  const held = new Map<string, string>();
  for (const { id, status, blocked_tasks } of blockers) {
    if (status === 'active') for (const { task_id } of blocked_tasks) held.set(task_id, id);
  }
  return held;
}
