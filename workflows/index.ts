// Entry point of the workflow bundle: every export is a workflow type.
export { session } from './session.ts';
