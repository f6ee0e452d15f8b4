// perdure/worker: run a worker with agents, tools and models of one's own.
export type { Hooks } from '../activities/context.ts';
export { registerSearchAttributes } from '../config/search-attributes.ts';
export { createWorker, type SessionWorker, type WorkerParts } from './create.ts';
export { type StartedWorker, startWorker, type WorkerOptions } from './start.ts';
