// A program beside the hosts that appends events to a user's session with SessionService: with session objects that may be out of
// date, with copies that went through JSON, and with those that have no versions, only their `lastUpdateTime`.
import { setTimeout as delay } from 'node:timers/promises';
import { Event, type PostgresSessionService, type Session } from '../../client/state/index.ts';
import { PerdureError } from '../../domain/errors.ts';
import type { User } from './user.ts';

/** What it appends with: the object that it has, one that it reads now, or a copy of the former, through JSON or without versions. */
const OBJECTS = { held: 55, read: 20, json: 10, bare: 15 } as const;
const SCOPES = ['', 'user:', 'app:'] as const;
const AGAIN_MS = 300;

/** An event, as the program knows it. */
export interface Appended {
  id: string;
  session: string;
  /** Undefined: no definite outcome. */
  stored: boolean | undefined;
  /** How often it was sent. */
  tries: number;
}

/** Appends events to one session, until it is told to stop. */
export class Appending {
  readonly appended: Appended[] = [];
  private readonly user: User;
  private held: Session | undefined;

  constructor(user: User) {
    this.user = user;
  }

  async run(until: AbortSignal, service: PostgresSessionService): Promise<void> {
    const { random } = this.user;
    while (!until.aborted) {
      await delay(random.between(100, 1_000));
      const choice = random.weighted<keyof typeof OBJECTS>(OBJECTS);
      if (choice === 'read') this.held = undefined;
      this.held ??= await this.read(service).catch(() => undefined);
      if (this.held === undefined) continue;
      const copy = JSON.parse(JSON.stringify(this.held)) as Session;
      if (choice === 'bare') delete copy.seen;
      const isCopy = choice === 'json' || choice === 'bare';
      // Without versions, keys that sessions share can only be added.
      const isStored = await this.append(service, isCopy ? copy : this.held, choice === 'bare' ? [''] : SCOPES);
      if (!isStored) this.held = undefined;
    }
  }

  private async read(service: PostgresSessionService): Promise<Session | undefined> {
    const { api, session } = this.user;
    // It may not have been opened yet.
    return service.getSession({ appName: 'perdure', userId: api.user, sessionId: session });
  }

  /** Appends an event until its outcome is known. False: the object was out of date. */
  private async append(service: PostgresSessionService, session: Session, scopes: readonly string[]): Promise<boolean> {
    const event = this.nextEvent(session.state, scopes);
    const appended: Appended = { id: event.id, session: session.id, stored: undefined, tries: 0 };
    this.appended.push(appended);
    while (appended.stored === undefined && !this.user.late.aborted) {
      appended.tries += 1;
      try {
        await service.appendEvent({ session, event });
        appended.stored = true;
      } catch (error) {
        if (error instanceof PerdureError) {
          appended.stored = false;
          if (error.code !== 'StaleSession') this.user.api.odd.push(`event ${event.id}: ${String(error)}`);
        } else await delay(AGAIN_MS);
      }
    }
    return appended.stored === true;
  }

  private nextEvent(state: Readonly<Record<string, unknown>>, scopes: readonly string[]): Event {
    const { random } = this.user;
    const id = this.user.newName('e');
    const stateDelta: Record<string, unknown> = {};
    const stateDeletions: string[] = [];
    for (const scope of scopes) {
      // Read and set: a lost update would leave a repetition.
      if (random.chance(0.5)) stateDelta[`${scope}tally`] = Number(state[`${scope}tally`] ?? 0) + 1;
      // Some keys are deleted that are not there, while others add them.
      const odd = `${scope}odd`;
      if (random.chance(0.3)) stateDeletions.push(odd);
      else if (random.chance(0.5) && !(odd in state)) stateDelta[odd] = id;
    }
    const stateIncrements = Object.fromEntries(SCOPES.map((scope) => [`${scope}appended`, 1]));
    return new Event({ id, author: 'program', actions: { stateDelta, stateDeletions, stateIncrements } });
  }
}
