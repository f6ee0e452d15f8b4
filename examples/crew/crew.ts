// Runs a crew over the HTTP API of any host that has its agents: sessions of an architect, workers, a verifier and an orchestrator,
// each of which is told when there is something for it to do.
import { setTimeout as delay } from 'node:timers/promises';
import { type CrewView, isOver, type Order, ordersFor, type Role } from './orders.ts';

/** The ids of the agents (agents.ts). */
const AGENTS: Readonly<Record<Role | 'architect', string>> = {
  architect: 'architect',
  worker: 'builder',
  verifier: 'verifier',
  orchestrator: 'orchestrator',
};
const WORKERS = 2;
/** Many more than a site needs: the crew goes round in circles. */
const MOST_TURNS = 200;
/** Turns that may fail; the member is told again. */
const MOST_FAILURES = 5;
const RETRY_MS = 300;

/** What the crew works on, and where. Nobody reads along: what would need an approval is denied. */
export interface CrewOptions {
  /** URL of a host. */
  url: string;
  user: string;
  /** What is to be built, as for the site builder: "Build a small site about a tea room". */
  request: string;
  say: (line: string) => void;
  /** Ends the work. */
  signal: AbortSignal;
}

/** A session of the crew. */
interface Member {
  name: string;
  role: Role;
  session: string;
  isBusy: boolean;
}

/**
 * Plans what is requested as an initiative, and works on it until all of its phases are completed and verified.
 * @returns the initiative's id
 * @throws {Error} if the architect planned nothing, too many turns failed, or the crew makes no progress
 */
export async function runCrew(options: CrewOptions): Promise<string> {
  const { request, say, signal } = options;
  const api = new Api(options);
  const architect = await api.open('architect');
  say(`architect: ${request}`);
  await api.turn(architect, request);
  const id = await api.planned(architect);
  say(`initiative ${id}`);
  const members = await Promise.all([
    ...Array.from({ length: WORKERS }, (_, n) => join(api, 'worker', `worker ${n + 1}`, id)),
    join(api, 'verifier', 'verifier', id),
    join(api, 'orchestrator', 'orchestrator', id),
  ]);
  const changes = new Changes();
  const following = new AbortController();
  const followed = api.follow(id, () => changes.note(), AbortSignal.any([signal, following.signal]));
  try {
    await dispatch({ api, id, members, changes }, options);
  } finally {
    following.abort();
    await followed;
  }
  return id;
}

async function join(api: Api, role: Role, name: string, initiative: string): Promise<Member> {
  return { name, role, session: await api.open(role, initiative), isBusy: false };
}

interface Crew {
  api: Api;
  id: string;
  members: readonly Member[];
  changes: Changes;
}

/** Gives orders to whoever is idle, each time something has changed. */
async function dispatch({ api, id, members, changes }: Crew, { say, signal }: CrewOptions): Promise<void> {
  const working = new Set<Promise<void>>();
  const failures: unknown[] = [];
  const begin = (member: Member, { text }: Order) => {
    say(`${member.name}: ${text}`);
    member.isBusy = true;
    const turn = api
      .turn(member.session, text)
      .catch((error: unknown) => {
        failures.push(error);
        say(`${member.name}: ${String(error)}`);
      })
      .then(() => {
        member.isBusy = false;
        working.delete(turn);
        changes.note();
      });
    working.add(turn);
  };
  const stopped = aborted(signal);
  for (let turns = 0; ;) {
    const changed = changes.next();
    const view = await api.view(id);
    if (failures.length > MOST_FAILURES) throw failures[0];
    if (isOver(view) && working.size === 0) return;
    const busy = members.filter(({ isBusy }) => isBusy).map(({ role }) => role);
    for (const order of ordersFor(view, busy)) {
      const member = members.find(({ role, isBusy }) => role === order.role && !isBusy);
      if (member === undefined) continue;
      if ((turns += 1) > MOST_TURNS) throw new Error(`the crew has made no progress in ${MOST_TURNS} turns`);
      begin(member, order);
    }
    await Promise.race([changed, stopped]);
    signal.throwIfAborted();
  }
}

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', resolve, { once: true });
  });
}

/** Says that something has changed. */
class Changes {
  private waiting = Promise.withResolvers<void>();

  note(): void {
    this.waiting.resolve();
    this.waiting = Promise.withResolvers();
  }

  /** The next change from now on. */
  next(): Promise<void> {
    return this.waiting.promise;
  }
}

/** Calls the API as one user; what got no response, or 503, is sent again. */
class Api {
  private readonly options: CrewOptions;
  private messages = 0;

  constructor(options: CrewOptions) {
    this.options = options;
  }

  /** Opens a session of a member. Returns its id. */
  async open(role: keyof typeof AGENTS, initiative?: string): Promise<string> {
    const metadata = initiative === undefined ? {} : { initiative_id: initiative };
    const opened = await this.call<{ session: { session_id: string } }>('/api/sessions', {
      method: 'POST',
      body: JSON.stringify({ agent: AGENTS[role], headless: true, metadata: { title: role, ...metadata } }),
    });
    return opened.session.session_id;
  }

  /** Sends a message, and waits until it is answered. @throws {Error} if the turn failed */
  async turn(session: string, text: string): Promise<void> {
    const id = `${session}-${(this.messages += 1)}`;
    const path = `/api/sessions/${session}`;
    await this.call(`${path}/messages`, { method: 'POST', body: JSON.stringify({ id, text }) });
    for (;;) {
      // Ends when the turn does, or when the connection is lost.
      const stream = await this.fetch(`/api/chat/${session}/stream`).catch(() => undefined);
      await stream?.text().catch(() => {});
      const { status } = await this.call<{ status: { state: string; message?: string } }>(path);
      if (status.state === 'idle') return;
      if (status.state === 'error') throw new Error(`${text} ${status.message ?? 'the turn failed'}`);
      await delay(RETRY_MS, undefined, { signal: this.options.signal });
    }
  }

  /** The initiative that the architect has created in its session. */
  async planned(session: string): Promise<string> {
    const { items } = await this.call<{ items: { parts: Part[] }[] }>(`/api/sessions/${session}/messages`);
    const made = items
      .flatMap(({ parts }) => parts)
      .findLast(({ type, output }) => type === 'tool-initiative_create' && output !== undefined);
    if (made?.output === undefined) throw new Error('the architect has planned nothing');
    return made.output.initiative.initiative_id;
  }

  view(id: string): Promise<CrewView> {
    return this.call(`/api/initiatives/${id}`);
  }

  /** Calls back whenever the initiative has changed, until the signal. */
  async follow(id: string, changed: () => void, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const { body } = await this.fetch(`/api/initiatives/${id}/events`, { signal });
        for await (const _ of body ?? []) changed();
      } catch {
        // The connection was lost: what has changed meanwhile is read again.
      }
      await delay(RETRY_MS, undefined, { signal }).catch(() => {});
    }
  }

  private async call<T>(path: string, init: RequestInit = {}): Promise<T> {
    for (;;) {
      const response = await this.fetch(path, init).catch(() => undefined);
      const body: unknown = await response?.json().catch(() => undefined);
      if (response?.ok === true && body !== undefined) return body as T;
      if (response !== undefined && response.status < 500) {
        throw new Error(`${init.method ?? 'GET'} ${path}: ${response.status} ${JSON.stringify(body)}`);
      }
      await delay(RETRY_MS, undefined, { signal: this.options.signal });
    }
  }

  private fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const { url, user, signal } = this.options;
    const headers = { 'x-perdure-user': user, 'content-type': 'application/json' };
    return fetch(new URL(path, url), { signal, ...init, headers });
  }
}

interface Part {
  type: string;
  output?: { initiative: { initiative_id: string } };
}
