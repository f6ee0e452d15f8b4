import { memo, useEffect, useState } from 'react';
import type { StatusOf } from '../../domain/initiatives/machines.ts';
import type { InitiativeView, WorkSession } from '../../wire/initiative-views.ts';
import { Counted, Fold, StatusTag } from '../initiative-parts/entry.tsx';
import { Markdown } from '../markdown/markdown.tsx';
import { TaskRow } from './task-row.tsx';

type PhaseView = InitiativeView['phases'][number];
type PlanView = PhaseView['plans'][number];

interface Shown {
  /** The task of the position, if it is here. */
  here: string | undefined;
  /** Only the tasks with this status; undefined: all. */
  only: StatusOf<'task'> | undefined;
  workers: ReadonlyMap<string, WorkSession>;
  /** The blocker of each blocked task. */
  held: ReadonlyMap<string, string>;
}

/** A phase with its plans. The one of the position is open; with a status chosen, those that have such tasks are. */
export const PhasePlans = memo(function PhasePlans({
  phase: { phase, name, status, plans },
  ...shown
}: Shown & { phase: PhaseView }) {
  const { here, only } = shown;
  const isCurrent = here !== undefined && status !== 'completed';
  const [isOpened, setOpened] = useState(isCurrent);
  useEffect(() => {
    if (isCurrent) setOpened(true);
  }, [isCurrent]);
  const tasks = plans.flatMap((plan) => plan.tasks);
  if (only !== undefined && !tasks.some((task) => task.status === only)) return null;
  const isOpen = isOpened || only !== undefined;
  return (
    <details
      className="phase"
      open={isOpen}
      data-status={status}
      onToggle={({ currentTarget }) => only === undefined && setOpened(currentTarget.open)}
    >
      <summary>
        <h3 dir="auto">
          {phase}. {name}
        </h3>
        {status !== 'active' && <StatusTag status={status} />}
        <Counted name={`Tasks of phase ${phase}`} done={completed(tasks)} all={tasks.length} />
      </summary>
      {isOpen && plans.map((plan) => <Plan key={plan.plan} plan={plan} {...shown} />)}
    </details>
  );
});

const Plan = memo(function Plan({ plan: { plan, name, body, summary, tasks }, ...shown }: Shown & { plan: PlanView }) {
  const { here, only, workers, held } = shown;
  const rows = only === undefined ? tasks : tasks.filter((task) => task.status === only);
  if (rows.length === 0) return null;
  const hasWaves = tasks.some(({ wave }) => wave !== tasks[0]?.wave);
  return (
    <div className="plan">
      <div className="row">
        <h4 dir="auto">
          Plan {plan}: {name}
        </h4>
        <Counted name={`Tasks of plan ${plan}`} done={completed(tasks)} all={tasks.length} />
      </div>
      {body !== '' && (
        <Fold label="What is planned">
          <Markdown text={body} isStreaming={false} />
        </Fold>
      )}
      {summary !== null && summary !== '' && (
        <Fold label="Summary">
          <Markdown text={summary} isStreaming={false} />
        </Fold>
      )}
      <ul className="tasks" aria-label={`Tasks of plan ${plan}`}>
        {rows.map((task) => (
          <TaskRow
            key={task.task_id}
            task={task}
            worker={task.assigned_to === null ? undefined : workers.get(task.assigned_to)}
            blocker={held.get(task.task_id)}
            isHere={task.task_id === here}
            hasWaves={hasWaves}
          />
        ))}
      </ul>
    </div>
  );
});

function completed(tasks: PlanView['tasks']): number {
  return tasks.filter(({ status }) => status === 'completed').length;
}
