import { newId } from '../../domain/ids.ts';
import type { StateActions } from '../../domain/state-changes.ts';

/** What an event does besides its content. Members that are not of state are stored and returned as they are. */
export class EventActions implements StateActions {
  /** Values to set, by the full names of their keys. */
  stateDelta: Record<string, unknown>;
  /** Full names of keys to remove. */
  stateDeletions?: readonly string[];
  /** Numbers to add to keys. The stored event has the sums in `stateDelta`. */
  stateIncrements?: Readonly<Record<string, number>>;
  [member: string]: unknown;

  constructor(actions: Partial<EventActions> = {}) {
    this.stateDelta = {};
    Object.assign(this, actions);
  }
}

/** What an event is made of; any other member is stored with it. */
export interface EventInput {
  id?: string;
  invocationId?: string;
  author?: string;
  actions?: Partial<EventActions> | undefined;
  /** Epoch seconds; default now. */
  timestamp?: number;
  content?: unknown;
  partial?: boolean;
  [member: string]: unknown;
}

/** An event of a session, with the names of Google ADK. */
export class Event {
  id: string;
  invocationId: string;
  author: string | undefined;
  actions: EventActions;
  /** Epoch seconds. */
  timestamp: number;
  content?: unknown;
  /** A piece of a streamed event: not stored. */
  partial?: boolean;
  [member: string]: unknown;

  constructor({ id, invocationId, author, actions, timestamp, ...rest }: EventInput = {}) {
    this.id = id ?? newId('evt');
    this.invocationId = invocationId ?? '';
    this.author = author;
    this.actions = actions instanceof EventActions ? actions : new EventActions(actions);
    this.timestamp = timestamp ?? Date.now() / 1_000;
    Object.assign(this, rest);
  }
}
