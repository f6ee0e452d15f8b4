/** Counters of an initiative; those of the current phase are 0 when all phases are completed. */
export interface InitiativeProgress {
  phases_total: number;
  phases_completed: number;
  current_phase_tasks: number;
  current_phase_completed: number;
}

const CELLS = 16;

/**
 * Completed phases and the completed share of the current one, of all phases, as a part of `whole`: a whole number, rounded
 * down, so that only all phases make it `whole`.
 */
export function doneOf(progress: InitiativeProgress, whole: number): number {
  const { phases_total: total, phases_completed: done, current_phase_tasks: tasks } = progress;
  const [part, all] = tasks === 0 ? [done, total] : [done * tasks + progress.current_phase_completed, total * tasks];
  return all === 0 ? 0 : Math.floor((whole * part) / all);
}

/** The bar of STATE.md, such as `████████░░░░░░░░ 50%`. */
export function progressBar(progress: InitiativeProgress): string {
  const cells = doneOf(progress, CELLS);
  return `${'█'.repeat(cells)}${'░'.repeat(CELLS - cells)} ${doneOf(progress, 100)}%`;
}
