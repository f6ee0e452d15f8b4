import type { StatusOf } from '../../domain/initiatives/machines.ts';

export const INITIATIVE_WORDS: Record<StatusOf<'initiative'>, string> = {
  active: 'active',
  paused: 'paused',
  escalated: 'needs you',
  completed: 'completed',
};

export const TASK_WORDS: Record<StatusOf<'task'>, string> = {
  open: 'Open',
  in_progress: 'In progress',
  blocked: 'Blocked',
  completed: 'Completed',
};

export const WORK_WORDS: Record<StatusOf<'work_session'>, string> = {
  active: 'at work',
  ended: 'ended',
  crashed: 'crashed',
};
