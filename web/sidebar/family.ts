import type { OpenSession } from '../../domain/rendezvous.ts';

/** A session with its branches, which have branches of their own. */
export interface Family {
  session: OpenSession;
  branches: Family[];
}

/** Sessions under a heading, such as "Today". */
export interface Age {
  name: string;
  families: Family[];
}

const DAY_MS = 24 * 60 * 60 * 1_000;
const WEEK_DAYS = 7;
const AGES = ['Today', 'Yesterday', 'Last 7 days', 'Older'] as const;

/** Branches below the session that they were made from, in the given order; one whose parent is not given stands for itself. */
export function familiesOf(sessions: readonly OpenSession[]): Family[] {
  const all = new Map(sessions.map((session) => [session.session_id, { session, branches: [] as Family[] }]));
  const top: Family[] = [];
  for (const family of all.values()) {
    const { parent_id } = family.session;
    const siblings = (parent_id === null ? undefined : all.get(parent_id)?.branches) ?? top;
    siblings.push(family);
  }
  return top;
}

/** When a session of the family last changed. */
function changedAt({ session, branches }: Family): number {
  return Math.max(Date.parse(session.updated_at), ...branches.map(changedAt));
}

/** Families by their age at `now` in the local time zone, newest first; ages without sessions are left out. */
export function agesOf(families: readonly Family[], now: Date): Age[] {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const starts = [midnight, midnight - DAY_MS, midnight - (WEEK_DAYS - 1) * DAY_MS, -Infinity];
  const sorted = families
    .map((family) => ({ family, at: changedAt(family) }))
    .toSorted((one, other) => other.at - one.at);
  return AGES.map((name, index) => {
    const [from = 0, before = Infinity] = [starts[index], starts[index - 1]];
    return { name, families: sorted.filter(({ at }) => at >= from && at < before).map(({ family }) => family) };
  }).filter((age) => age.families.length > 0);
}
