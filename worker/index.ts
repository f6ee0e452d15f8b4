// perdure/worker: run a worker with your own agents, tools and models.
export type { Hooks } from '../activities/activity-context.ts';
export { registerSearchAttributes } from '../config/search-attributes.ts';
export { type StartedWorker, startWorker, type WorkerOptions } from './start.ts';
