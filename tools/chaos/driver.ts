// One user of one session: sends messages and commands and reads answers, through any host.
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../test-kit/random.ts';
import { Api, type Answered, type Readings } from './api.ts';
import { Appending } from './appending.ts';
import { Approvals } from './approvals.ts';
import { STALE_MS } from './crew.ts';
import { Files } from './files.ts';
import { GoingBack } from './going-back.ts';
import { CANARY, CREW, crewText, MODELS, plannedText } from './plan.ts';
import type { Commanded, Sent, User } from './user.ts';

const ACTIONS = {
  chat: 34,
  post: 14,
  burst: 8,
  twice: 5,
  conflict: 2,
  reread: 8,
  abort: 7,
  cancel: 4,
  publish: 6,
  revert: 3,
  open: 2,
  cancelQueued: 4,
  close: 3,
  state: 8,
  change: 28,
  unrewind: 3,
  compact: 5,
  prune: 2,
  attach: 7,
} as const;
/** What `change` does, in turn; each user begins with another one. */
const CHANGES = ['rewind', 'edit', 'regenerate', 'rewind', 'branch'] as const;
/** What a member of a crew does. */
const CREW_ACTIONS = { chat: 66, abort: 10, away: 10, reread: 10, twice: 4 } as const;
/** More than a work session may be silent for. */
const AWAY_MS = { least: STALE_MS, most: 2 * STALE_MS } as const;
/** Shares of messages that name a model. The last one's window holds no conversation. */
const NAMED = { none: 84, usual: 8, small: 7, tiny: 1 } as const;
const PATIENCE_MS = 4_000;
/** With more messages queued than this the user sends less often. */
const MOST_AHEAD = 1;
const SLOW_PIECES = 12;
const BODIES = {
  abort: {},
  cancel: { reason: `${CANARY} changed its mind` },
  publish: {},
  revert: {},
  unrewind: {},
  compact: {},
  prune: {},
} as const;

export interface DriverOptions {
  seed: number;
  number: number;
  user: string;
  hosts: readonly string[];
  random: Random;
  readings: Readings;
  /** The initiative that it works on, as a member of a crew. */
  initiative?: string;
  /** Aborts all waiting at the end of the campaign. */
  late: AbortSignal;
}

/** Drives one session and keeps all responses. */
export class Driver implements User {
  readonly api: Api;
  readonly sent: Sent[] = [];
  readonly commanded: Commanded[] = [];
  readonly goingBack = new GoingBack(this);
  readonly files = new Files(this);
  readonly approvals = new Approvals(this);
  readonly appending = new Appending(this);
  readonly random: Random;
  /** Id or alias of its session. */
  session = '';
  private readonly options: DriverOptions;
  private readonly waiting: Promise<unknown>[] = [];
  private counter = 0;
  private changes = 0;
  /** Queue position of the last messages sent. */
  private ahead = 0;

  constructor(options: DriverOptions) {
    this.options = options;
    this.random = options.random;
    this.api = new Api(options.user, options.hosts, options.random);
  }

  /** Fires when nothing is waited for any more. */
  get late(): AbortSignal {
    return this.options.late;
  }

  /** Acts until the signal, then waits for its open requests. */
  async run(until: AbortSignal): Promise<void> {
    await this.open();
    while (!until.aborted) {
      await (this.options.initiative === undefined ? this.act() : this.work(until));
      await delay(this.random.between(100, 1_200) * (1 + 2 * Math.max(0, this.ahead - MOST_AHEAD)));
      this.ahead = 0;
    }
    await Promise.all(this.waiting);
  }

  /** Sends one more message, which resumes a queue that an error has paused. */
  async goOn(): Promise<void> {
    const posting = this.post();
    this.later(posting);
    await posting;
  }

  /** Waits until no request is open; false: it takes too long. */
  async isQuiet(): Promise<boolean> {
    const all = Promise.all(this.waiting).then(() => true);
    return Promise.race([all, delay(PATIENCE_MS).then(() => false)]);
  }

  /** Waits for all open requests. */
  async finished(): Promise<void> {
    await Promise.all(this.waiting);
  }

  /** A turn with 300 ms between words. Returns the message id once its answer has been read. */
  async slowChat(): Promise<string> {
    const sent = this.newMessage();
    sent.text = `${CANARY} ${sent.id} slow:${SLOW_PIECES}`;
    await this.readToEnd(sent);
    return sent.id;
  }

  /** Half of the sessions are opened by their first message, through an alias. */
  private async open(): Promise<void> {
    const { number, late, initiative } = this.options;
    const joining = initiative === undefined ? {} : { agent: CREW, metadata: { initiative_id: initiative } };
    if (number % 2 === 0) this.session = `tab-${number}`;
    else {
      const { body } = await this.api.surely('POST', '/api/sessions', joining, late);
      this.session = (body['session'] as { session_id: string }).session_id;
    }
    await this.post();
  }

  private async act(): Promise<void> {
    const action = this.random.weighted<keyof typeof ACTIONS>(ACTIONS);
    switch (action) {
      case 'chat':
        return this.chat(this.newMessage());
      case 'post':
        return this.post();
      case 'burst':
        await Promise.all([this.post(), this.post(), this.post()]);
        return undefined;
      case 'twice':
        return this.twice();
      case 'conflict':
        return this.conflict();
      case 'reread':
        return this.later(this.reread());
      case 'open':
        return this.inBackground('open', { project_id: `p-${this.options.user}-${this.random.between(1, 2)}` });
      case 'close':
        return this.inBackground('close', { abort: this.random.chance(0.5) });
      case 'cancelQueued':
        return this.cancelQueued();
      case 'state':
        return this.changeState();
      case 'change':
        return this.change();
      case 'attach':
        return this.attach();
      default:
        return this.inBackground(action, BODIES[action]);
    }
  }

  /** Changes the conversation. */
  private change(): Promise<void> {
    const next = CHANGES[(this.options.number + this.changes) % CHANGES.length]!;
    this.changes += 1;
    return next === 'edit' ? this.edit() : this.goingBack[next]();
  }

  /** One thing that a member of a crew does. */
  private async work(until: AbortSignal): Promise<void> {
    const action = this.random.weighted<keyof typeof CREW_ACTIONS>(CREW_ACTIONS);
    switch (action) {
      case 'away':
        return delay(this.random.between(AWAY_MS.least, AWAY_MS.most), undefined, { signal: until }).catch(() => {});
      case 'reread':
        return this.later(this.reread());
      case 'twice':
        return this.twice();
      case 'abort':
        return this.inBackground('abort', {});
      default:
        return this.chat(this.newMessage());
    }
  }

  private newMessage(): Sent {
    const id = this.newName('m');
    if (this.options.initiative !== undefined) return this.noted({ id, text: crewText(this.random, id) });
    const model = this.random.weighted<keyof typeof NAMED>(NAMED);
    return this.noted({ id, text: plannedText(this.random, id), ...(model !== 'none' && { model: MODELS[model] }) });
  }

  private noted(message: Pick<Sent, 'id' | 'text' | 'model'>): Sent {
    const sent: Sent = { ...message, session: this.session, status: undefined, awaited: false, read: false };
    this.sent.push(sent);
    return sent;
  }

  /** A name that no other driver gives. */
  newName(letter: string): string {
    return `${letter}-${this.options.number}-${(this.counter += 1)}`;
  }

  /** As useChat does: sends the message and reads its answer, and retries until it was read to its end. */
  private async chat(sent: Sent): Promise<void> {
    const reading = this.readToEnd(sent);
    this.later(reading);
    // After an error the queue is paused until the next message, so the wait is bounded.
    if (this.random.chance(0.7)) await Promise.race([reading.catch(() => {}), delay(PATIENCE_MS)]);
  }

  private async readToEnd(sent: Sent): Promise<void> {
    const { readings, late } = this.options;
    sent.awaited = true;
    while (!sent.read && !late.aborted) {
      const { status, reading } = await readings
        .read(sent.session, (signal) => this.sendChat(bodyOf(sent), AbortSignal.any([signal, late])))
        .catch(() => ({ status: 0, reading: undefined }));
      if (status === 200 || (status >= 400 && status < 500)) sent.status ??= status;
      if (status >= 400 && status < 500) return;
      if (status === 500) this.api.odd.push(`POST /api/chat ${sent.id}: 500`);
      sent.read = reading?.whole === true;
      if (!sent.read) await this.reread();
    }
  }

  private sendChat(body: object, signal: AbortSignal): Promise<Response> {
    return this.api.fetch('/api/chat', { method: 'POST', body: JSON.stringify(body), signal });
  }

  /**
   * As useChat does: replaces a stored message. Once the server has it, it is not sent again: another edit may have replaced it
   * by then, which this one would replace.
   */
  private async edit(): Promise<void> {
    const target = await this.goingBack.someMessage();
    if (target === undefined) return;
    const sent = Object.assign(this.newMessage(), { replaces: target, tries: 0 });
    await this.ask(bodyOf(sent), sent);
  }

  async ask(body: object, asked: { tries: number; status: number | undefined }): Promise<void> {
    while (asked.status === undefined) {
      this.late.throwIfAborted();
      asked.tries += 1;
      const { promise: answered, resolve } = Promise.withResolvers<void>();
      const request = async (signal: AbortSignal) => {
        const response = await this.sendChat(body, AbortSignal.any([signal, this.late]));
        if (response.status === 500) this.api.odd.push(`POST /api/chat ${JSON.stringify(body)}: 500`);
        if (response.status < 500) asked.status = response.status;
        resolve();
        return response;
      };
      this.later(this.options.readings.read(this.session, request).finally(resolve));
      await answered;
      if (asked.status === undefined) await delay(this.random.between(50, 400));
    }
  }

  private async attach(): Promise<void> {
    const file = await this.files.upload();
    if (file !== undefined) await this.chat(Object.assign(this.newMessage(), { file }));
  }

  /** Reads the run in flight from its first chunk. */
  private async reread(): Promise<void> {
    const { readings, late } = this.options;
    await delay(this.random.between(20, 300));
    const path = `/api/chat/${this.session}/stream`;
    const read = (signal: AbortSignal) => this.api.fetch(path, { signal: AbortSignal.any([signal, late]) });
    await readings.read(this.session, read).catch(() => {});
  }

  private async post(): Promise<void> {
    const { number, late } = this.options;
    const sent = this.newMessage();
    // An alias is created by the first POST /chat.
    if (number % 2 === 0 && this.sent.length === 1) return this.readToEnd(sent);
    const body = { id: sent.id, text: sent.text, model: sent.model };
    const answer = await this.api.surely('POST', `/api/sessions/${this.session}/messages`, body, late);
    sent.status = answer.status;
    this.ahead = Math.max(this.ahead, Number(answer.body['position'] ?? 0));
    if (this.random.chance(0.3)) this.later(this.readToEnd(sent));
    return undefined;
  }

  /** A double click. */
  private async twice(): Promise<void> {
    const sent = this.newMessage();
    const send = () =>
      this.api.surely(
        'POST',
        `/api/sessions/${this.session}/messages`,
        { id: sent.id, text: sent.text },
        this.options.late,
      );
    const [first, second] = await Promise.all([send(), send()]);
    sent.status = first.status;
    // The second may come when the run of the first has been cancelled or has failed.
    const isOver = ({ status, body }: Answered) =>
      status === 200 && (body['state'] === 'cancelled' || body['state'] === 'error');
    if (first.status !== second.status && !isOver(first) && !isOver(second))
      this.api.odd.push(`${sent.id} sent twice: ${first.status} and ${second.status}`);
  }

  /** Sends a known id with other content, which must be refused. */
  private async conflict(): Promise<void> {
    const known = this.random.pick(this.sent);
    if (known.replaces !== undefined || (known.status !== 200 && known.status !== 202)) return;
    const body = { id: known.id, text: `${known.text} otherwise` };
    const { status } = await this.api.surely('POST', `/api/sessions/${this.session}/messages`, body, this.options.late);
    if (status !== 409) this.api.odd.push(`${known.id} sent with other words: ${status} instead of 409`);
  }

  /** Sends a command; half of them a second time, later. Returns the first response. */
  async command(name: string, body: object, path = name, target?: string): Promise<Answered> {
    const key = this.newName('k');
    const commanded: Commanded = { session: this.session, name, key, target, answers: [] };
    this.commanded.push(commanded);
    const method = name === 'cancelQueued' ? 'DELETE' : 'POST';
    const content = method === 'DELETE' ? undefined : body;
    const send = async () => {
      const answer = await this.api.surely(method, `/api/sessions/${this.session}/${path}`, content, this.late, key);
      commanded.answers.push(answer);
      return answer;
    };
    const pause = this.random.chance(0.5) ? this.random.between(10, 3_000) : undefined;
    const first = await send();
    if (pause !== undefined) this.later(delay(pause).then(send));
    return first;
  }

  private inBackground(...given: Parameters<Driver['command']>): void {
    this.later(this.command(...given));
  }

  private changeState(): void {
    const word = `${CANARY} ${this.random.between(1, 1_000)}`;
    const stateIncrements = { posted: 1, 'user:posted': 1 };
    // A deletion without a fence, also of keys that are not there.
    const stateDeletions = this.random.chance(0.3) ? ['odd', 'user:odd'] : [];
    this.inBackground('state', { stateDelta: { word, 'user:word': word }, stateDeletions, stateIncrements });
  }

  private cancelQueued(): void {
    const { id } = this.sent.at(-1)!;
    this.inBackground('cancelQueued', {}, `messages/${id}`, id);
  }

  /** Runs in the background until `finished`. */
  private later(work: Promise<unknown>): void {
    this.waiting.push(work.catch(() => {}));
  }
}

/** What useChat sends of a message. */
function bodyOf({ id, session, text, file, replaces, model }: Sent): object {
  const parts = [{ type: 'text', text }, ...(file ? [{ type: 'file', mediaType: file.mediaType, url: file.url }] : [])];
  const message = { id: replaces ?? id, role: 'user', parts };
  return { id: session, trigger: 'submit-message', messageId: replaces, messages: [message], model };
}
