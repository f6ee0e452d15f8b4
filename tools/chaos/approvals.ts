// A user's tabs, which answer the tool calls that ask: late, twice, differently at once, and to calls that do not exist.
import { setTimeout as delay } from 'node:timers/promises';
import { newId } from '../../domain/ids.ts';
import { CANARY } from './plan.ts';
import type { User } from './user.ts';

const DECISIONS = { once: 50, session: 12, always: 10, reject: 28 } as const;
type Decision = keyof typeof DECISIONS;

interface Part {
  toolCallId?: string;
  state?: string;
}

/** Answers in one session, until it is told to stop. */
export class Approvals {
  private readonly user: User;
  /** The calls that were answered, oldest first. */
  private readonly answered: string[] = [];

  constructor(user: User) {
    this.user = user;
  }

  async run(until: AbortSignal): Promise<void> {
    const { random } = this.user;
    while (!until.aborted) {
      await delay(random.between(100, 700));
      const call = this.user.session === '' ? undefined : await this.asked();
      if (call !== undefined) await this.answer(call);
    }
  }

  /** The call that asks now. */
  private async asked(): Promise<string | undefined> {
    const { body } = await this.get('');
    const { state } = (body['status'] ?? {}) as { state?: string };
    if (state !== 'waiting') return undefined;
    // Messages may be queued behind it.
    const { body: page } = await this.get('/messages?limit=100');
    const { items = [] } = page as { items?: { parts: Part[] }[] };
    const parts = items.flatMap((message) => message.parts);
    return parts.find((part) => part.state === 'approval-requested')?.toolCallId;
  }

  private async answer(call: string): Promise<void> {
    const { random } = this.user;
    if (random.chance(0.1)) await this.decide(newId('call'), 'once');
    const decision = random.weighted<Decision>(DECISIONS);
    // Another tab, which may say something else.
    const tabs = random.chance(0.25) ? [random.weighted<Decision>(DECISIONS)] : [];
    await Promise.all([decision, ...tabs].map((each) => this.decide(call, each)));
    const before = this.answered.at(-1);
    if (before !== undefined && random.chance(0.2)) await this.decide(before, random.weighted<Decision>(DECISIONS));
    if (before !== undefined && random.chance(0.15)) await this.revoke(`rul_${before}`);
    if (before !== call) this.answered.push(call);
  }

  private async decide(call: string, decision: Decision): Promise<void> {
    const reason = decision === 'reject' ? { reason: `${CANARY} no` } : {};
    await this.user.command('answer', { tool_call_id: call, decision, ...reason });
  }

  private async revoke(rule: string): Promise<void> {
    const { api, session, late } = this.user;
    const { status } = await api.surely('DELETE', `/api/sessions/${session}/permissions/${rule}`, undefined, late);
    if (status !== 204 && status !== 404) api.odd.push(`revoking ${rule}: ${status}`);
  }

  private get(path: string) {
    const { api, session, late } = this.user;
    return api.surely('GET', `/api/sessions/${session}${path}`, undefined, late);
  }
}
