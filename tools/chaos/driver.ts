// One user of one session: sends messages and commands and reads answers, through any host.
import { setTimeout as delay } from 'node:timers/promises';
import { Api, type Answered, type Readings } from './api.ts';
import { CANARY, plannedText } from './plan.ts';
import type { Random } from './random.ts';

/** A message, as the user knows it. */
export interface Sent {
  id: string;
  /** Session id or alias. */
  session: string;
  text: string;
  /** 200 or 202: accepted. Undefined: no definite response yet. */
  status: number | undefined;
  /** The user reads its answer to the end. */
  awaited: boolean;
  /** The answer was read to its end. */
  read: boolean;
}

/** A command, as the user knows it. */
export interface Commanded {
  session: string;
  name: string;
  key: string;
  target: string | undefined;
  answers: Answered[];
}

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
} as const;
const PATIENCE_MS = 4_000;
/** With more messages queued than this the user sends less often. */
const MOST_AHEAD = 1;
const SLOW_PIECES = 12;
const BODIES = { abort: {}, cancel: { reason: `${CANARY} changed its mind` }, publish: {}, revert: {} } as const;

export interface DriverOptions {
  seed: number;
  number: number;
  user: string;
  hosts: readonly string[];
  random: Random;
  readings: Readings;
  /** Aborts all waiting at the end of the campaign. */
  late: AbortSignal;
}

/** Drives one session and keeps all responses. */
export class Driver {
  readonly api: Api;
  readonly sent: Sent[] = [];
  readonly commanded: Commanded[] = [];
  /** Id or alias of its session. */
  session = '';
  private readonly options: DriverOptions;
  private readonly waiting: Promise<unknown>[] = [];
  private readonly random: Random;
  private counter = 0;
  /** Queue position of the last messages sent. */
  private ahead = 0;

  constructor(options: DriverOptions) {
    this.options = options;
    this.random = options.random;
    this.api = new Api(options.user, options.hosts, options.random);
  }

  /** Acts until the signal, then waits for its open requests. */
  async run(until: AbortSignal): Promise<void> {
    await this.open();
    while (!until.aborted) {
      await this.act();
      await delay(this.random.between(100, 1_200) * (1 + 2 * Math.max(0, this.ahead - MOST_AHEAD)));
      this.ahead = 0;
    }
    await Promise.all(this.waiting);
  }

  /** Sends one more message, which resumes a queue that an error has paused. */
  async goOn(): Promise<void> {
    await this.post();
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
    const { number, late } = this.options;
    if (number % 2 === 0) this.session = `tab-${number}`;
    else {
      const { body } = await this.api.surely('POST', '/api/sessions', {}, late);
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
        return this.command('open', { project_id: `p-${this.options.user}-${this.random.between(1, 2)}` });
      case 'close':
        return this.command('close', { abort: this.random.chance(0.5) });
      case 'cancelQueued':
        return this.cancelQueued();
      default:
        return this.command(action, BODIES[action]);
    }
  }

  private newMessage(): Sent {
    const id = `m-${this.options.number}-${(this.counter += 1)}`;
    const sent: Sent = {
      id,
      session: this.session,
      text: plannedText(this.random, id),
      status: undefined,
      awaited: false,
      read: false,
    };
    this.sent.push(sent);
    return sent;
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
        .read(sent.session, (signal) => this.sendChat(sent, AbortSignal.any([signal, late])))
        .catch(() => ({ status: 0, reading: undefined }));
      if (status === 200 || (status >= 400 && status < 500)) sent.status ??= status;
      if (status >= 400 && status < 500) return;
      if (status === 500) this.api.odd.push(`POST /api/chat ${sent.id}: 500`);
      sent.read = reading?.whole === true;
      if (!sent.read) await this.reread();
    }
  }

  private sendChat(sent: Sent, signal: AbortSignal): Promise<Response> {
    const message = { id: sent.id, role: 'user', parts: [{ type: 'text', text: sent.text }] };
    const body = { id: sent.session, trigger: 'submit-message', messages: [message] };
    return this.api.fetch('/api/chat', { method: 'POST', body: JSON.stringify(body), signal });
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
    const body = { id: sent.id, text: sent.text };
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
    if (known.status !== 200 && known.status !== 202) return;
    const body = { id: known.id, text: `${known.text} otherwise` };
    const { status } = await this.api.surely('POST', `/api/sessions/${this.session}/messages`, body, this.options.late);
    if (status !== 409) this.api.odd.push(`${known.id} sent with other words: ${status} instead of 409`);
  }

  private command(name: string, body: object, path = name, target?: string): void {
    const key = `k-${this.options.number}-${(this.counter += 1)}`;
    const commanded: Commanded = { session: this.session, name, key, target, answers: [] };
    this.commanded.push(commanded);
    const method = name === 'cancelQueued' ? 'DELETE' : 'POST';
    const send = async () => {
      const content = method === 'DELETE' ? undefined : body;
      const answer = await this.api.surely(
        method,
        `/api/sessions/${this.session}/${path}`,
        content,
        this.options.late,
        key,
      );
      commanded.answers.push(answer);
    };
    const again = this.random.chance(0.5);
    this.later(
      send().then(async () => {
        if (!again) return;
        await delay(this.random.between(10, 3_000));
        await send();
      }),
    );
  }

  private cancelQueued(): void {
    const { id } = this.sent.at(-1)!;
    this.command('cancelQueued', {}, `messages/${id}`, id);
  }

  /** Runs in the background until `finished`. */
  private later(work: Promise<unknown>): void {
    this.waiting.push(work.catch(() => {}));
  }
}
