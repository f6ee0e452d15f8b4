import { isDeepStrictEqual } from 'node:util';
import type { Json } from '../../../domain/text.ts';
import { tablesWith } from '../../test-kit/canary.ts';
import { replayState } from '../../test-kit/replayed-state.ts';
import { by, type Evidence, type EventRow, type PartRow } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';
import { TEMP_CANARY } from '../plan.ts';
import type { World } from '../world.ts';

/** An entry of the log of kind "state", with the owners of its session's scopes. */
interface Applied {
  session: string;
  user: string;
  /** Of the event: `tool:<call>`, or the Idempotency-Key of the request. */
  id: string;
  version: number;
  set: Record<string, Json>;
  deleted: string[];
}

/** The keys that the tool `keep` sets with every call. */
const KEPT = ['kept', 'user:kept', 'app:kept', 'last', 'user:last', 'app:last'];
/** The keys that a request of `Driver` sets. */
const POSTED = ['posted', 'user:posted', 'word', 'user:word'];
/** The keys to which every event of a program adds. */
const APPENDED = ['appended', 'user:appended', 'app:appended'];
/** The keys to which the tool, requests and programs add. */
const COUNTERS = ['kept', 'user:kept', 'app:kept', 'posted', 'user:posted', ...APPENDED];
/** Counters that programs read and then set. */
const TALLIES = ['tally', 'user:tally', 'app:tally'];

/** What is known of state. */
type StateEvidence = Pick<
  Evidence,
  'sessions' | 'events' | 'parts' | 'state' | 'toolRuns' | 'drivers' | 'sessionOf'
> & { world: Pick<World, 'db'> };

/** Replaying the events gives the state; no change is applied twice or in part; no `temp:` value outlives its turn. */
export async function checkState(ledger: Ledger, evidence: StateEvidence): Promise<void> {
  const users = new Map(evidence.sessions.map(({ session_id, user_id }) => [session_id, user_id]));
  const applied = evidence.events
    .filter(({ kind }) => kind === 'state')
    .map((event) => appliedOf(event, users.get(event.session_id) ?? ''))
    .toSorted((a, b) => a.version - b.version);
  checkReplay(ledger, evidence, applied);
  checkToolChanges(ledger, evidence, applied);
  checkPosted(ledger, evidence, applied);
  checkAppended(ledger, evidence, applied);
  checkCounters(ledger, 'counters in state are exact', COUNTERS, applied);
  checkCounters(ledger, 'no update of state is lost to a stale writer', TALLIES, applied);
  checkTemp(ledger, evidence);
  const tables = await tablesWith(evidence.world.db, TEMP_CANARY);
  ledger.check('no `temp:` value outlives its turn', 'the database', tables.length === 0, () => tables);
}

function appliedOf({ session_id: session, data }: EventRow, user: string): Applied {
  const { event, version, set, deleted } = data as unknown as Omit<Applied, 'id'> & { event: { id: string } };
  return { session, user, id: event.id, version, set, deleted };
}

/** A key's name with whose it is, so that it names one row. */
function ownName({ session, user }: Pick<Applied, 'session' | 'user'>, name: string): string {
  if (name.startsWith('app:')) return name;
  return name.startsWith('user:') ? `user ${user}, ${name}` : `session ${session}, ${name}`;
}

/** A deletion in the log follows an event that set the key. */
function checkDeletions(ledger: Ledger, applied: readonly Pick<Applied, 'set' | 'deleted'>[]): void {
  const known = new Set<string>();
  for (const { set, deleted } of applied) {
    for (const name of Object.keys(set)) known.add(name);
    for (const name of deleted)
      ledger.check('only keys that are there are logged as deleted', name, known.delete(name), () => deleted);
  }
}

function checkReplay(ledger: Ledger, { state }: StateEvidence, applied: readonly Applied[]): void {
  const owned = applied.map((one) => ({
    set: Object.fromEntries(Object.entries(one.set).map(([name, value]) => [ownName(one, name), value])),
    deleted: one.deleted.map((name) => ownName(one, name)),
  }));
  checkDeletions(ledger, owned);
  const replayed = replayState(owned);
  const stored = new Map(
    state.map(({ scope, owner, key, value }) => [
      ownName({ session: owner, user: owner }, scope === 'session' ? key : `${scope}:${key}`),
      value,
    ]),
  );
  for (const name of new Set([...replayed.keys(), ...stored.keys()])) {
    const [found, wanted] = [stored.get(name), replayed.get(name)];
    ledger.check('replaying the events gives the state', name, isDeepStrictEqual(found, wanted), () => ({
      found,
      wanted,
    }));
  }
}

/** The changes of a call are applied once if its result is stored, and otherwise not at all. */
function checkToolChanges(ledger: Ledger, { parts }: StateEvidence, applied: readonly Applied[]): void {
  const events = by(applied, ({ id }) => id);
  for (const part of parts.filter(isKeep)) {
    const where = `session ${part.session_id}, call ${part.tool_call_id}`;
    const found = events.get(`tool:${part.tool_call_id}`) ?? [];
    const wanted = part.tool_state === 'output-available' ? 1 : 0;
    ledger.check('a tool’s changes are applied once, with its result', where, found.length === wanted, () => [
      part.data,
      found,
    ]);
    for (const one of found) checkWhole(ledger, where, one, KEPT);
  }
}

function checkPosted(ledger: Ledger, evidence: StateEvidence, applied: readonly Applied[]): void {
  const events = by(applied, ({ session, id }) => `${session} ${id}`);
  for (const driver of evidence.drivers) {
    const session = evidence.sessionOf(driver);
    for (const { name, key, answers } of driver.commanded) {
      if (name !== 'state' || answers[0] === undefined) continue;
      const where = `session ${session}, state ${key}`;
      const found = events.get(`${session} ${key}`) ?? [];
      const wanted = answers[0].status === 200 ? 1 : 0;
      ledger.check('a request’s changes are applied once', where, found.length === wanted, () => [answers, found]);
      for (const one of found) checkWhole(ledger, where, one, POSTED);
    }
  }
}

function checkWhole(ledger: Ledger, where: string, { set }: Applied, names: readonly string[]): void {
  const missing = names.filter((name) => !(name in set));
  ledger.check('no change of state is applied in part', where, missing.length === 0, () => missing);
}

/** An event that a program has appended is there once, and one that was refused is not. */
function checkAppended(ledger: Ledger, { drivers }: StateEvidence, applied: readonly Applied[]): void {
  const events = by(applied, ({ id }) => id);
  for (const one of drivers.flatMap(({ appending }) => appending.appended)) {
    const found = events.get(one.id) ?? [];
    // Where it was sent again, the first request may have been carried out after the second.
    const isUnknown = one.stored !== true && one.tries > 1;
    const isRight = isUnknown ? found.length <= 1 : found.length === (one.stored === true ? 1 : 0);
    const where = `session ${one.session}, event ${one.id}`;
    ledger.check('an event of a program is stored once, or refused', where, isRight, () => ({ one, found }));
    for (const each of found) checkWhole(ledger, where, each, APPENDED);
  }
}

/** A counter goes up by one with each event: a change that was applied twice, or lost, leaves a gap or a repetition. */
function checkCounters(
  ledger: Ledger,
  promise: string,
  counters: readonly string[],
  applied: readonly Applied[],
): void {
  for (const counter of counters) {
    const counting = applied.filter(({ set }) => counter in set);
    for (const [name, events] of by(counting, (one) => ownName(one, counter))) {
      const values = events.map(({ set }) => set[counter]);
      const wanted = values.map((_value, n) => n + 1);
      ledger.check(promise, name, isDeepStrictEqual(values, wanted), () => values);
    }
  }
}

/** A call sees the draft of the call before it in its turn, and of no other turn. */
function checkTemp(ledger: Ledger, { parts, toolRuns }: StateEvidence): void {
  const calls = new Map(parts.filter(isKeep).map((part) => [part.tool_call_id ?? '', part]));
  const before = new Map<PartRow, string>();
  for (const turn of by([...calls.values()], ({ session_id, message_id }) => `${session_id} ${message_id}`).values()) {
    const kept = turn.filter(({ tool_state }) => tool_state === 'output-available');
    kept
      .toSorted((a, b) => a.index - b.index)
      .forEach((part, n, all) => before.set(part, all[n - 1]?.tool_call_id ?? ''));
  }
  for (const { session, call, saw } of toolRuns.filter(({ tool }) => tool === 'keep')) {
    const part = calls.get(call);
    if (part === undefined) continue;
    const where = `session ${session}, call ${call}`;
    const seen = saw === undefined ? undefined : calls.get(saw);
    const isOwn = saw === undefined || seen?.message_id === part.message_id;
    ledger.check('no `temp:` value is seen by another turn', where, isOwn, () => ({ saw, seen }));
    const wanted = before.get(part);
    if (wanted === undefined) continue;
    ledger.check('`temp:` values are seen by the later calls of their turn', where, (saw ?? '') === wanted, () => ({
      saw,
      wanted,
    }));
  }
}

function isKeep({ data, tool_call_id }: PartRow): boolean {
  return data.type === 'tool-keep' && tool_call_id !== null;
}
