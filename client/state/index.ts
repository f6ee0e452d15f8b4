// perdure/state: sessions with scoped key-value state, after Google ADK.
export { PerdureError } from '../../domain/errors.ts';
export { State } from '../../domain/state.ts';
export { StateError, StatePrefix } from '../../domain/state-keys.ts';
export { Event, EventActions, type EventInput } from './event.ts';
export { InMemorySessionService } from './in-memory.ts';
export { type PostgresSessionOptions, PostgresSessionService } from './postgres.ts';
export {
  type CreateSessionRequest,
  type GetSessionRequest,
  type ListSessionsRequest,
  type ListSessionsResponse,
  type SessionKey,
  SessionService,
} from './service.ts';
export type { Session, SessionLike } from './session.ts';
