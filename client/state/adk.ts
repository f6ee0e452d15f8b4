// perdure/adk: the sessions of perdure/state for agents of Google ADK.
import {
  type AppendEventRequest,
  BaseSessionService,
  type CreateSessionRequest,
  createEvent,
  createSession as createAdkSession,
  type DeleteSessionRequest,
  type Event as AdkEvent,
  type GetSessionRequest,
  type ListSessionsRequest,
  type ListSessionsResponse,
  type Session as AdkSession,
} from '@google/adk';
import { Event } from './event.ts';
import type { SessionService } from './service.ts';
import type { Session, SessionLike } from './session.ts';

/** Times are epoch seconds in perdure/state, and epoch milliseconds in ADK for TypeScript. */
const MS = 1_000;

type SeenSession = AdkSession & Pick<SessionLike, 'seen'>;

/** ADK's session service over one of perdure/state, for ADK's own `Runner`. */
export class PerdureSessionService extends BaseSessionService {
  private readonly service: SessionService;

  constructor(service: SessionService) {
    super();
    this.service = service;
  }

  async createSession(request: CreateSessionRequest): Promise<AdkSession> {
    return adkSession(await this.service.createSession(request));
  }

  async getSession({ config, ...key }: GetSessionRequest): Promise<AdkSession | undefined> {
    const { numRecentEvents, afterTimestamp } = config ?? {};
    const after = afterTimestamp === undefined ? undefined : afterTimestamp / MS;
    const session = await this.service.getSession({ ...key, config: { numRecentEvents, afterTimestamp: after } });
    return session && adkSession(session);
  }

  async listSessions(request: ListSessionsRequest): Promise<ListSessionsResponse> {
    const { sessions, ...page } = await this.service.listSessions(request);
    return { ...page, sessions: sessions.map(adkSession) };
  }

  deleteSession(request: DeleteSessionRequest): Promise<void> {
    return this.service.deleteSession(request);
  }

  /** As `SessionService.appendEvent`: a stale session object is refused or merged, never written over. */
  override async appendEvent({ session, event }: AppendEventRequest): Promise<AdkEvent> {
    if (event.partial === true) return event;
    const seen = session as SeenSession;
    const known = new Set(session.events.map(({ id }) => id));
    // The same state object, which is brought up to date in place: ADK's contexts hold references to it.
    const own: SessionLike = {
      ...seen,
      events: [],
      lastUpdateTime: session.lastUpdateTime / MS,
    };
    const stored = await this.service.appendEvent({ session: own, event: storable(event) });
    event.actions.stateDelta = stored.actions.stateDelta;
    const added = own.events.filter(({ id }) => !known.has(id));
    session.events.push(...added.map((each) => (each.id === event.id ? event : adkEvent(each))));
    session.lastUpdateTime = own.lastUpdateTime * MS;
    if (own.seen !== undefined) seen.seen = own.seen;
    return event;
  }
}

function adkSession(session: Session): AdkSession {
  const { id, appName, userId, lastUpdateTime } = session;
  const made = createAdkSession({
    ...{ id, appName, userId, lastUpdateTime: lastUpdateTime * MS },
    state: session.state.getAll(),
    events: session.events.map(adkEvent),
  });
  return Object.assign(made, session.seen && { seen: session.seen });
}

function adkEvent({ timestamp, ...event }: Event): AdkEvent {
  return createEvent({ ...event, timestamp: timestamp * MS } as unknown as AdkEvent);
}

function storable({ timestamp, ...event }: AdkEvent): Event {
  return new Event({ ...event, actions: { ...event.actions }, timestamp: timestamp / MS });
}
