/** Temporal's task queue of an installation's sessions, unless it is configured. */
export const DEFAULT_TASK_QUEUE = 'perdure';

/** Temporal reserves names that begin with a slash. */
export const TASK_QUEUE_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}$/;
/** What `TASK_QUEUE_PATTERN` accepts, for errors. */
export const TASK_QUEUE_EXPECTED =
  'a name of 1 to 200 letters, digits, "_", ".", ":" and "-" that begins with a letter or digit';
