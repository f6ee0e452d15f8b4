import type { Db } from '../../store/db.ts';
import { readInitiativeChanges } from '../../store/initiatives.ts';
import type { Initiative, InitiativeChange } from '../../wire/initiative-views.ts';
import { initiativeNotFound } from './refused-initiative.ts';

/** Changes in one reading; more follow in the next ones. */
const AT_ONCE = 200;

/** The events of an initiative that followers receive. */
export type InitiativeEvent = { event: 'state'; data: Initiative } | { event: 'change'; data: InitiativeChange };

/**
 * Reads an initiative and its changes. The first reading yields its state only; after the changes up to then the state is yielded
 * again if it is another one.
 */
export class InitiativeReader {
  private readonly db: Db;
  private readonly target: { userId: string; initiativeId: string };
  private after: number | null = null;
  private state = '';

  constructor(db: Db, target: InitiativeReader['target']) {
    this.db = db;
    this.target = target;
  }

  /** @throws {PerdureError} `InitiativeNotFound` */
  async read(): Promise<{ items: InitiativeEvent[]; done: boolean; againInMs?: number }> {
    const found = await readInitiativeChanges(this.db, this.target, this.after, AT_ONCE);
    if (found === undefined) throw initiativeNotFound();
    const { initiative, state, newest, changes } = found;
    const isFull = changes.length === AT_ONCE;
    this.after = isFull ? (changes.at(-1)?.seq ?? newest) : newest;
    const items: InitiativeEvent[] = changes.map((data) => ({ event: 'change', data }));
    if (isFull) return { items, done: false, againInMs: 0 };
    const mark = JSON.stringify([initiative, state]);
    if (mark !== this.state) items.push({ event: 'state', data: { initiative, state } });
    this.state = mark;
    return { items, done: false };
  }
}
