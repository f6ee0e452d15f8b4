import { memo } from 'react';
import type { InitiativeTask, WorkSession } from '../../wire/initiative-views.ts';
import { When, Words } from '../initiative-parts/entry.tsx';
import { TASK_WORDS } from '../initiative-parts/initiative-words.ts';
import { Transcript } from './work-sessions.tsx';

interface Props {
  task: InitiativeTask;
  /** The work session that holds or has completed it. */
  worker: WorkSession | undefined;
  /** The active blocker that names it. */
  blocker: string | undefined;
  /** The position is here. */
  isHere: boolean;
  /** The tasks of its plan are of several waves. */
  hasWaves: boolean;
}

/** A task with its status, and who works on it. It has a link only while it is worked on or blocked: there may be many tasks. */
export const TaskRow = memo(function TaskRow({ task, worker, blocker, isHere, hasWaves }: Props) {
  const { name, status, wave, assigned_to, last_progress_at, completed_at, note } = task;
  const isDone = status === 'completed';
  return (
    <li className="task" data-status={status} aria-current={isHere && !isDone ? 'step' : undefined}>
      <span className="mark" data-status={status} />
      <div className="what">
        <p dir="auto">
          <span className="unseen">{TASK_WORDS[status]}: </span>
          {name}
        </p>
        {note !== null && <Words text={note} />}
      </div>
      <p className="who note">
        {isHere && !isDone && <span className="tag">position</span>}
        {hasWaves && <span>wave {wave}</span>}
        {blocker !== undefined && <a href={`#blocker-${blocker}`}>{blocker}</a>}
        {assigned_to !== null && (
          <span dir="auto">{worker === undefined ? assigned_to : `${worker.agent} · ${assigned_to}`}</span>
        )}
        {worker !== undefined && !isDone && <Transcript of={worker} />}
        {isDone && completed_at !== null && <When at={completed_at} />}
        {!isDone && last_progress_at !== null && (
          <span>
            last sign <When at={last_progress_at} />
          </span>
        )}
      </p>
    </li>
  );
});
