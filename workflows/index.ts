// The worker's bundle is made from here: every export is a workflow type.
export { session } from './session.ts';
