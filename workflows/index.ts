// Entry point of the workflow bundle: every export is a workflow type.
export { initiative } from './initiative.ts';
export { session } from './session.ts';
