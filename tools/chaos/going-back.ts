// A user who goes back in the conversation, and branches from it.
import { setTimeout as delay } from 'node:timers/promises';
import type { Regenerated, User } from './user.ts';

/** Rewinds that were all undone: the visible transcript before the first of them, and after the last un-rewind. */
export interface RoundTrip {
  rewinds: number;
  before: string;
  after: string;
}

interface Listed {
  id: string;
  role: string;
}

const ALL = 200;
/** What a request to answer again names as replaced. */
const NAMED = { answer: 60, nothing: 25, message: 15 } as const;
/** How often it is looked whether the session is idle. */
const LOOKS = 8;
const LOOK_MS = 300;

/** Goes back and forth in one session. */
export class GoingBack {
  readonly roundTrips: RoundTrip[] = [];
  readonly regenerated: Regenerated[] = [];
  private readonly user: User;
  /** The target of the last rewind: a second one to it would not be another one. */
  private rewoundTo: string | undefined;

  constructor(user: User) {
    this.user = user;
  }

  /** Goes back, once or twice; two times out of three also forth again. While requests are open it ends what is in flight. */
  async rewind(): Promise<void> {
    const { random } = this.user;
    if (!(await this.isIdle())) {
      const target = await this.someMessage(this.rewoundTo);
      if (target !== undefined) await this.rewindTo(target, true);
      return;
    }
    const sent = this.user.sent.length;
    const before = await this.transcript();
    let rewinds = 0;
    for (const times = random.between(1, 2); rewinds < times; rewinds += 1) {
      const target = await this.someMessage(this.rewoundTo);
      if (target === undefined || !(await this.rewindTo(target, false))) break;
    }
    if (rewinds === 0 || random.chance(0.33)) return;
    for (let undone = 0; undone < rewinds; undone += 1) {
      const { status } = await this.user.command('unrewind', {});
      if (status !== 200) return;
    }
    this.rewoundTo = undefined;
    const after = await this.transcript();
    // At the end of a campaign every user sends one more message, at any time.
    if (this.user.sent.length === sent) this.roundTrips.push({ rewinds, before, after });
  }

  /** Copies the conversation up to some message; half of the copies begin in its middle. */
  async branch(): Promise<void> {
    const { random } = this.user;
    const items = await this.listed('');
    if (items.length === 0) return;
    const tail = random.chance(0.5) ? { tail_turns: random.between(1, 3) } : {};
    await this.user.command('branch', { from_message_id: random.pick(items).id, ...tail });
  }

  /** Asks for another answer to some message, as useChat does; at times twice at once. */
  async regenerate(): Promise<void> {
    const { random, session } = this.user;
    const items = await this.some();
    const users = items.filter(({ role }) => role === 'user');
    if (users.length === 0) return;
    const target = random.pick(users);
    const after = items.slice(items.indexOf(target) + 1);
    const next = after.findIndex(({ role }) => role === 'user');
    const answer = after.slice(0, next === -1 ? undefined : next).at(-1);
    const named = random.weighted<keyof typeof NAMED>(NAMED);
    const replaced = { answer: answer?.id, message: target.id, nothing: undefined }[named];
    const asked: Regenerated = { message: target.id, replaced, tries: 0, status: undefined };
    this.regenerated.push(asked);
    const body = { id: session, trigger: 'regenerate-message', messageId: replaced, messages: [target] };
    await Promise.all([asked, ...(random.chance(0.3) ? [asked] : [])].map((one) => this.user.ask(body, one)));
  }

  /** A user message to go back to or to edit, but not this one. Undefined: there is none. */
  async someMessage(except?: string): Promise<string | undefined> {
    const targets = (await this.some()).filter(({ id, role }) => role === 'user' && id !== except);
    return targets.length === 0 ? undefined : this.user.random.pick(targets).id;
  }

  /** What is visible, at times with what is hidden: of that, what is summarized can be gone back to. */
  private some(): Promise<Listed[]> {
    return this.listed(this.user.random.chance(0.2) ? '&hidden=true' : '');
  }

  private async rewindTo(target: string, abort: boolean): Promise<boolean> {
    const { status } = await this.user.command('rewind', { message_id: target, abort });
    if (status === 200) this.rewoundTo = target;
    return status === 200;
  }

  /** Nothing is sent, and no turn is under way: nothing but this user's next request changes the session. */
  private async isIdle(): Promise<boolean> {
    if (!(await this.user.isQuiet())) return false;
    for (let looks = 0; looks < LOOKS; looks += 1) {
      const { body } = await this.user.api.surely('GET', this.path(''), undefined, this.user.late);
      const { state } = (body['status'] ?? {}) as { state?: string };
      if (state === 'idle' || state === 'error') return true;
      await delay(LOOK_MS);
    }
    return false;
  }

  /** All that is visible, as it is sent. */
  private async transcript(): Promise<string> {
    return JSON.stringify(await this.listed(''));
  }

  private async listed(query: string): Promise<Listed[]> {
    const items: Listed[] = [];
    for (let before = ''; ;) {
      const path = this.path(`/messages?limit=${ALL}${query}${before}`);
      const { body } = await this.user.api.surely('GET', path, undefined, this.user.late);
      const page = body as { items?: Listed[]; next?: string | null };
      items.unshift(...(page.items ?? []));
      if (!page.next) return items;
      before = `&before=${page.next}`;
    }
  }

  private path(rest: string): string {
    return `/api/sessions/${this.user.session}${rest}`;
  }
}
