// perdure/domain: types and pure rules.
export type { CommandInput, CommandName, CommandOutcome, SessionMark } from './command-table.ts';
export type { SessionSnapshot } from './activities.ts';
export { ERROR_STATUS, type ErrorCode, invalidTransitionMessage, isErrorCode, PerdureError } from './errors.ts';
export { type IdKind, newId } from './ids.ts';
export {
  nextPhase,
  type Phase,
  PHASE_EVENTS,
  phaseDiagram,
  type PhaseEvent,
  PHASES,
  TRANSITIONS,
  transitionRows,
} from './phases.ts';
export { type PendingTool, RUN_STATES, type RunErrorCode, type RunState, type SessionStatus } from './runs.ts';
export type { Json } from './text.ts';
export { addUsage, totalTokens, type Usage, ZERO_USAGE } from './usage.ts';
