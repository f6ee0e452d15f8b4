import pTimeout from 'p-timeout';
import { newId } from '../../domain/ids.ts';
import type { InitiativeCommand } from '../../domain/initiatives/initiative-commands.ts';
import { initiativeUpdateOf, initiativeWakeUpdate } from '../../workflows/definitions.ts';
import type { ClientLog } from '../log.ts';
import { sendInitiativeUpdate, type SessionWorkflows } from '../send/send-update.ts';
import { Limiter } from '../wait/limiter.ts';

const DEADLINE_MS = 3_000;
const CLOSE_MS = 700;
/** Updates in flight. */
const AT_ONCE = 32;

/** What a workflow is told: that a command is recorded, or only that it is to look at its rows. */
interface News {
  user: string;
  initiativeId: string;
  command?: { name: InitiativeCommand; id: string };
}

/**
 * Tells the workflows of initiatives what their rows have recorded, in the background. While a workflow is being told, only the newest
 * of what follows is kept: it tells of everything before. News may be lost; sweepers wake workflows that have not ended a stale work
 * session, or do not show a changed status.
 */
export class InitiativeWaker {
  private readonly workflows: SessionWorkflows;
  private readonly log: ClientLog;
  private readonly limiter = new Limiter(AT_ONCE);
  /** By initiative: being told, and what follows. */
  private readonly telling = new Map<string, Promise<void>>();
  private readonly following = new Map<string, News>();
  private isClosed = false;

  constructor(workflows: SessionWorkflows, log: ClientLog) {
    this.workflows = workflows;
    this.log = log;
  }

  tell(news: News): void {
    const { initiativeId } = news;
    if (this.isClosed) return;
    if (this.telling.has(initiativeId)) {
      this.following.set(initiativeId, news);
      return;
    }
    const told = this.tellAll(news);
    this.telling.set(initiativeId, told);
  }

  /** Waits for what is being told, for a short time. */
  async close(): Promise<void> {
    this.isClosed = true;
    await pTimeout(Promise.allSettled(this.telling.values()), { milliseconds: CLOSE_MS, message: false });
  }

  /** Tells the news, then what has followed meanwhile. */
  private async tellAll(first: News): Promise<void> {
    const { initiativeId } = first;
    for (let news: News | undefined = first; news !== undefined; news = this.next(initiativeId)) {
      const current = news;
      await this.limiter
        .run(() => this.send(current))
        .catch((error: unknown) => {
          const message = 'the workflow of an initiative was not told of a command';
          this.log.warn({ err: error, initiative: initiativeId }, message);
        });
    }
    this.telling.delete(initiativeId);
  }

  private next(initiativeId: string): News | undefined {
    const news = this.isClosed ? undefined : this.following.get(initiativeId);
    this.following.delete(initiativeId);
    return news;
  }

  private async send({ user, initiativeId, command }: News): Promise<void> {
    // The workflow corrects these.
    const facts = { initiativeId, user, status: 'active', projectId: null };
    const deadlineMs = DEADLINE_MS;
    if (command === undefined) {
      const update = { name: initiativeWakeUpdate, id: `wake:${newId('cmd')}`, args: {}, deadlineMs };
      await sendInitiativeUpdate(this.workflows, facts, update);
    } else {
      const { name, id } = command;
      const update = { name: initiativeUpdateOf(name), id: `${name}:${id}`, args: { command_id: id }, deadlineMs };
      await sendInitiativeUpdate(this.workflows, facts, update);
    }
  }
}
