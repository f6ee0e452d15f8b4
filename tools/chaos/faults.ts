import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../test-kit/random.ts';
import { type Disk, slowCommits } from './disk.ts';
import type { Link, LinkTarget } from './links.ts';
import type { Part } from './part.ts';
import type { World } from './world.ts';

export const FAULT_KINDS = [
  'worker-kill',
  'worker-freeze',
  'worker-restart',
  'host-kill',
  'host-freeze',
  'host-restart',
  'postgres-kill',
  'postgres-immediate',
  'postgres-freeze',
  'postgres-connections',
  'temporal-kill',
  'temporal-freeze',
  'readers-cut',
  'readers-freeze',
  'postgres-slow',
  'postgres-disk-full',
  'postgres-disk-slow',
  'link-latency',
  'link-loss',
  'link-stall',
  'mcp-kill',
  'mcp-freeze',
] as const;

export type FaultKind = (typeof FAULT_KINDS)[number];

const WEIGHTS: Readonly<Record<FaultKind, number>> = {
  'worker-kill': 20,
  'worker-freeze': 15,
  'worker-restart': 8,
  'host-kill': 10,
  'host-freeze': 5,
  'host-restart': 5,
  'postgres-kill': 4,
  'postgres-immediate': 4,
  'postgres-freeze': 4,
  'postgres-connections': 9,
  'temporal-kill': 6,
  'temporal-freeze': 4,
  'readers-cut': 12,
  'readers-freeze': 4,
  'postgres-slow': 2,
  'postgres-disk-full': 4,
  'postgres-disk-slow': 4,
  'link-latency': 8,
  'link-loss': 8,
  'link-stall': 5,
  'mcp-kill': 6,
  'mcp-freeze': 3,
};

const FEW_KINDS = 4;

/** Faults that may cost an attempt: its worker, or the server that the worker reports to, is gone or unreachable. */
const DEATHS: ReadonlySet<FaultKind> = new Set([
  'worker-kill',
  'worker-freeze',
  'worker-restart',
  'postgres-kill',
  'postgres-immediate',
  'temporal-kill',
  'temporal-freeze',
  'link-stall',
]);

/** An injected fault. */
export interface Injected {
  kind: FaultKind;
  target: string;
  /** Seconds since the faults began. */
  at: number;
  /** Times of `performance.now()`; `to` is Infinity until the fault is over. */
  from: number;
  to: number;
  /** It may cost an attempt (see DEATHS). */
  isDeath: boolean;
}

/** The readers that faults hit. */
export interface Readers {
  /** Breaks the connections of about half of the readers; returns how many. */
  cut(random: Random): number;
  /** About half of the readers stop reading for `ms`; returns how many. */
  freeze(random: Random, ms: number): number;
}

/**
 * Injects faults for `seconds`, and until there have been `leastFaults`, then restores everything. Faults overlap: both workers
 * may be away at once, or Postgres and a host. A target that is already away is skipped and another fault is chosen.
 */
export async function injectFaults(
  world: World,
  readers: Readers,
  options: { random: Random; seconds: number; leastFaults: number; gapMs: number; kinds: readonly FaultKind[] },
): Promise<Injected[]> {
  const { random, seconds, leastFaults, gapMs } = options;
  const weights = Object.fromEntries(options.kinds.map((kind) => [kind, WEIGHTS[kind]]));
  // A campaign of a few kinds has each of them, however rare.
  const untried = new Set(options.kinds.length > FEW_KINDS ? [] : options.kinds);
  const began = Date.now();
  const injected: Injected[] = [];
  const lasting: Promise<unknown>[] = [];
  for (;;) {
    await delay(gapMs * (0.4 + random.next() * 1.2));
    const at = (Date.now() - began) / 1000;
    if (at >= seconds && injected.length >= leastFaults) break;
    const found = somewhere(() => {
      const kind = untried.size > 0 ? random.pick([...untried]) : random.weighted<FaultKind>(weights);
      untried.delete(kind);
      const made = inject(kind, { world, readers, random, longestMs: seconds * 1_000 * LONGEST_SHARE });
      return made && { kind, ...made };
    });
    if (found === undefined) continue;
    const { kind, target, over } = found;
    const fault: Injected = { kind, target, at, from: performance.now(), to: Infinity, isDeath: DEATHS.has(kind) };
    injected.push(fault);
    const ended = over.finally(() => (fault.to = performance.now()));
    // A failure is reported when all faults are over.
    ended.catch(() => {});
    lasting.push(ended);
  }
  await Promise.all(lasting);
  return injected;
}

/** Tries up to five random faults until one applies. */
function somewhere<T>(attempt: () => T | undefined): T | undefined {
  for (let n = 0; n < 5; n += 1) {
    const found = attempt();
    if (found !== undefined) return found;
  }
  return undefined;
}

type Fault = { target: string; over: Promise<unknown> } | undefined;

interface Scene {
  world: World;
  readers: Readers;
  random: Random;
  /** Longest that a fault may last. */
  longestMs: number;
}

function inject(kind: FaultKind, { world, readers, random, longestMs }: Scene): Fault {
  const worker = random.pick(world.workers);
  const host = random.pick(world.hosts);
  const pause = random.between(100, 2_000);
  const lasting = random.between(5_000, 15_000);
  // A worker frozen for longer than its lease is a zombie when it wakes.
  const frozen = random.chance(0.6) ? random.between(2_500, 6_000) : random.between(200, 1_500);
  switch (kind) {
    case 'worker-kill':
      return bounced(worker, 'SIGKILL', pause);
    case 'worker-freeze':
      return freeze(worker, frozen);
    case 'worker-restart':
      return bounced(worker, 'SIGTERM', 0);
    case 'host-kill':
      return bounced(host, 'SIGKILL', pause);
    case 'host-freeze':
      return freeze(host, frozen);
    case 'host-restart':
      return bounced(host, 'SIGTERM', 0);
    case 'postgres-kill':
      return bounced(world.postgres, 'SIGKILL', pause);
    case 'postgres-immediate':
      return bounced(world.postgres, 'SIGQUIT', pause);
    case 'postgres-freeze':
      return freeze(world.postgres, frozen);
    case 'postgres-connections':
      return world.postgres.pid === undefined ? undefined : { target: 'postgres', over: endConnections(world) };
    case 'temporal-kill':
      return bounced(world.temporal, 'SIGKILL', pause);
    case 'temporal-freeze':
      return freeze(world.temporal, frozen);
    case 'readers-cut':
      return hit(readers.cut(random), Promise.resolve());
    case 'readers-freeze':
      return hit(readers.freeze(random, frozen), delay(frozen));
    case 'postgres-slow':
      return slow(linksTo(world, 'postgres'), (link) => link.slowStatements(random), Math.min(SLOW_MS, longestMs));
    case 'postgres-disk-full':
      return world.disk && { target: 'postgres', over: fillDisk(world, world.disk, frozen) };
    case 'postgres-disk-slow':
      return { target: 'postgres', over: slowCommits(world.db, delay(Math.min(lasting, longestMs))) };
    case 'link-latency':
      return slow([random.pick(world.links.all)], (link) => link.delay(random), Math.min(lasting, longestMs));
    case 'link-loss':
      return slow([random.pick(world.links.all)], (link) => link.losePackets(random), Math.min(lasting, longestMs));
    case 'link-stall':
      return slow([random.pick(world.links.all)], (link) => link.stall(), frozen);
    case 'mcp-kill':
      return bounced(world.mcp, 'SIGKILL', pause);
    case 'mcp-freeze':
      return freeze(world.mcp, frozen);
  }
}

/** Longest that a fault may last, as a share of the campaign. */
const LONGEST_SHARE = 0.6;

/** A slow Postgres stays slow for half a minute. */
const SLOW_MS = 30_000;

function linksTo({ links }: World, target: LinkTarget): Link[] {
  return links.all.filter(({ to }) => to === target);
}

/** Impairs links for `ms`; those that another fault impairs are skipped. */
function slow(links: readonly Link[], make: (link: Link) => void, ms: number): Fault {
  const chosen = links.filter((link) => !impaired.has(link));
  const [first] = chosen;
  if (first === undefined) return undefined;
  for (const link of chosen) {
    impaired.add(link);
    make(link);
  }
  const restore = () => {
    for (const link of chosen) {
      link.restore();
      impaired.delete(link);
    }
  };
  return { target: chosen.length === 1 ? first.name : `all to ${first.to}`, over: delay(ms).then(restore) };
}

const impaired = new WeakSet<Link>();

/** Postgres may exit when its disk is full; it is restarted once there is space. */
async function fillDisk({ postgres }: World, disk: Disk, ms: number): Promise<void> {
  await disk.fill();
  await delay(ms);
  await disk.free();
  await postgres.revive();
}

function bounced(part: Part, signal: NodeJS.Signals, pauseMs: number): Fault {
  return part.pid === undefined ? undefined : { target: part.name, over: part.bounce(signal, pauseMs) };
}

function freeze(part: Part, ms: number): Fault {
  return part.pid === undefined ? undefined : { target: part.name, over: part.freeze(ms) };
}

function hit(count: number, over: Promise<unknown>): Fault {
  return count === 0 ? undefined : { target: `${count} readers`, over };
}

async function endConnections({ db }: World): Promise<void> {
  const others = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()`;
  await db.query(others).catch(() => {});
}
