// perdure/adk: the sessions of perdure/state for agents of Google ADK.
import { isDeepStrictEqual } from 'node:util';
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
import { addEvents, holdBack, inOrder, type Session, type SessionLike } from './session.ts';

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
    return inOrder(session.state, Object.keys({ ...event.actions.stateDelta }), async (namesBehind) => {
      const seen: SeenSession = session;
      const before = storedValues.get(session.state) ?? { ...session.state };
      const own: SessionLike = {
        ...seen,
        state: { ...before },
        events: [],
        lastUpdateTime: session.lastUpdateTime / MS,
      };
      await this.service.appendEvent({ session: own, event: storable(event) });
      addEvents(
        session,
        own.events.map((each) => (each.id === event.id ? event : adkEvent(each))),
      );
      // Trims `temp:`, and sets what no other context has written later.
      await super.appendEvent({ session, event });
      const { stateDelta } = event.actions;
      const unsent = takeOver(session.state, own.state, { ...before, ...stateDelta });
      if (own.seen !== undefined) {
        const notSeen = [...unsent, ...namesBehind()].filter((name) => !Object.hasOwn(stateDelta, name));
        seen.seen = holdBack(own.seen, notSeen, seen.seen?.versions);
      }
      storedValues.set(session.state, own.state);
      session.lastUpdateTime = own.lastUpdateTime * MS;
      return event;
    });
  }
}

/** By the `state` of session objects: its stored values. What else is in it was written by an ADK context, and is in no event yet. */
const storedValues = new WeakMap<object, Record<string, unknown>>();

/**
 * Makes a session object's state the stored one, apart from values that differ from those it had `before`.
 * Returns the names of these.
 */
function takeOver(
  state: Record<string, unknown>,
  stored: Record<string, unknown>,
  before: Record<string, unknown>,
): string[] {
  const names = Object.keys({ ...before, ...stored });
  const unsent = names.filter((name) => !isDeepStrictEqual(state[name], before[name]));
  for (const name of names.filter((each) => !unsent.includes(each))) {
    if (!Object.hasOwn(stored, name)) Reflect.deleteProperty(state, name);
    // A copy: contexts also change what is inside of a value.
    else if (!isDeepStrictEqual(state[name], stored[name])) state[name] = structuredClone(stored[name]);
  }
  return unsent;
}

function adkSession(session: Session): AdkSession {
  const { id, appName, userId, lastUpdateTime } = session;
  const made = createAdkSession({
    ...{ id, appName, userId, lastUpdateTime: lastUpdateTime * MS },
    state: session.state.getAll(),
    events: session.events.map(adkEvent),
  });
  storedValues.set(made.state, structuredClone(made.state));
  return Object.assign(made, session.seen && { seen: session.seen });
}

function adkEvent({ timestamp, ...event }: Event): AdkEvent {
  return createEvent({ ...event, timestamp: timestamp * MS } as unknown as AdkEvent);
}

function storable({ timestamp, ...event }: AdkEvent): Event {
  return new Event({ ...event, actions: { ...event.actions }, timestamp: timestamp / MS });
}
