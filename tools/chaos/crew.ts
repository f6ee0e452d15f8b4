// The user of an initiative at which a crew works: reads its STATE.md all the time, and decides, blocks, resolves and edits.
import { setTimeout as delay } from 'node:timers/promises';
import { parseDocument } from 'yaml';
import type { Random } from '../test-kit/random.ts';
import { Api } from './api.ts';
import { CANARY } from './plan.ts';

/** A work session counts as unresponsive after this time (PERDURE_STALE_ASSIGNMENT, PERDURE_STALE_PROGRESS). */
export const STALE_MS = 4_000;

const PHASES = 3;
const PLANS = 4;
const TASKS = 24;
/** Tasks that may be worked on at once. */
const WAVE = 4;
const ACTIONS = { wait: 50, decide: 16, point: 6, block: 3, resolve: 14, edit: 6 } as const;

/** STATE.md, as some host showed it. */
export interface StateRead {
  /** Of its ETag. */
  version: number;
  text: string;
}

export interface CrewOptions {
  user: string;
  hosts: readonly string[];
  random: Random;
  late: AbortSignal;
}

/** One initiative and its user. */
export class Crew {
  readonly api: Api;
  readonly read: StateRead[] = [];
  /** Its id. */
  initiative = '';
  private readonly options: CrewOptions;
  private counter = 0;

  constructor(options: CrewOptions) {
    this.options = options;
    this.api = new Api(options.user, options.hosts, options.random);
  }

  /** Creates the initiative. */
  async open(): Promise<void> {
    const task = (n: number) => ({ name: `${CANARY} task ${n + 1}`, wave: 1 + Math.floor(n / WAVE) });
    const plan = (n: number) => ({
      name: `${CANARY} plan ${n + 1}`,
      tasks: Array.from({ length: TASKS }, (_, each) => task(each)),
    });
    const phase = (n: number) => ({
      name: `${CANARY} phase ${n + 1}`,
      plans: Array.from({ length: PLANS }, (_, each) => plan(each)),
    });
    const body = { title: `${CANARY} site`, phases: Array.from({ length: PHASES }, (_, n) => phase(n)) };
    const { body: made } = await this.send('', body);
    this.initiative = (made['initiative'] as { initiative_id: string }).initiative_id;
  }

  /** Acts until the signal. */
  async run(until: AbortSignal): Promise<void> {
    const { random } = this.options;
    const repeat = async (work: () => Promise<unknown>) => {
      while (!until.aborted) {
        await work();
        await delay(random.between(50, 400));
      }
    };
    // Reading goes on while a command waits for a host.
    await Promise.all([
      repeat(() => this.readState()),
      repeat(() => this.act(random.weighted<keyof typeof ACTIONS>(ACTIONS))),
    ]);
  }

  private async act(action: keyof typeof ACTIONS): Promise<unknown> {
    const { random } = this.options;
    const word = `${CANARY} ${random.between(1, 1_000)}`;
    switch (action) {
      case 'decide':
        return this.send('/decisions', { context: word, decision: word, reason: word });
      case 'point':
        return this.send('/state', { next_action: word, resume_context: { open_questions: [word] } });
      case 'block':
        return this.block(word);
      case 'resolve':
        return this.resolve(word);
      case 'edit':
        return this.edit(word);
      default:
        return undefined;
    }
  }

  /** Blocks a task, which is taken from whoever holds it. */
  private async block(word: string): Promise<void> {
    const { state } = await this.view();
    await this.send('/blockers', { description: word, affects: [word], blocked_tasks: [state.position.task_id] });
  }

  /** Bypasses or resolves a blocker. */
  private async resolve(word: string): Promise<void> {
    const { random } = this.options;
    const { blockers } = await this.view();
    const open = blockers.filter(({ status }) => status !== 'resolved');
    if (open.length === 0) return;
    const { id, status } = random.pick(open);
    if (status === 'active' && random.chance(0.3)) await this.send(`/blockers/${id}/bypass`, { workaround: word });
    else await this.send(`/blockers/${id}/resolve`, { resolution: word });
  }

  /** Sends an edited STATE.md back, which is refused if anything has changed since. */
  private async edit(word: string): Promise<void> {
    const read = await this.readState();
    if (read === undefined) return;
    const edited = parseDocument(read.text);
    edited.addIn(['decisions'], { context: word, decision: 'edited', reason: word });
    const headers = { 'content-type': 'text/markdown', 'if-match': `"v${read.version}"` };
    const response = await this.fetch('/STATE.md', { method: 'PUT', headers, body: String(edited) });
    if (response === undefined) return;
    const answer = await response.text();
    if (![200, 412, 503].includes(response.status)) this.api.odd.push(`PUT STATE.md: ${response.status} ${answer}`);
  }

  /** Reads STATE.md from some host; undefined: no response. */
  async readState(): Promise<StateRead | undefined> {
    const response = await this.fetch('/STATE.md');
    if (response?.status !== 200) return undefined;
    const version = Number(/^"v(\d+)"$/.exec(response.headers.get('etag') ?? '')?.[1] ?? Number.NaN);
    const text = await response.text().catch(() => undefined);
    if (text === undefined) return undefined;
    const read = { version, text };
    this.read.push(read);
    return read;
  }

  /** A request that may get no response. */
  private async fetch(path: string, init: RequestInit = {}): Promise<Response | undefined> {
    const signal = AbortSignal.any([this.options.late, AbortSignal.timeout(5_000)]);
    return this.api.fetch(`/api/initiatives/${this.initiative}${path}`, { ...init, signal }).catch(() => undefined);
  }

  private async view(): Promise<View> {
    const path = `/api/initiatives/${this.initiative}`;
    return (await this.api.surely('GET', path, undefined, this.options.late)).body as unknown as View;
  }

  /** Sends a command until it has a definite response; half of them a second time. */
  private async send(path: string, body: object) {
    const { random, late } = this.options;
    const key = `crew-${(this.counter += 1)}`;
    const route = path === '' ? '/api/initiatives' : `/api/initiatives/${this.initiative}${path}`;
    const answer = await this.api.surely('POST', route, body, late, key);
    if (random.chance(0.5)) {
      const again = await this.api.surely('POST', route, body, late, key);
      if (again.status !== answer.status) this.api.odd.push(`${route} sent twice: ${answer.status}, ${again.status}`);
    }
    return answer;
  }
}

interface View {
  state: { position: { task_id: string } };
  blockers: { id: string; status: string }[];
}
