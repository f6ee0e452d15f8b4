// SessionService on Postgres and ADK's DatabaseSessionService: the same calls by one writer, in databases of one server.
import { type BaseSessionService, createEvent, createEventActions, type Session } from '@google/adk';
import { DatabaseSessionService } from '@google/adk/sessions/database';
import { PerdureSessionService } from '../../../client/state/adk.ts';
import { PostgresSessionService } from '../../../client/state/index.ts';
import { createPool } from '../../../store/pool.ts';
import { now } from '../clock.ts';
import type { Figure, Result } from '../figure.ts';
import { median, spread } from '../statistics.ts';

const APP = 'bench';
/** Both append and read in turns, so many times each, after one turn to warm up. */
const TURNS = 6;
const APPENDS = 50;
const READS = 20;
const LENGTHS = [10, 500, 2_000] as const;
const RECENT = 20;

/** A service, and how long its calls took, in milliseconds. */
interface Measured {
  service: BaseSessionService;
  appends: number[];
  /** By number of events. */
  reads: Record<(typeof LENGTHS)[number], number[]>;
}

/** Appends events with three keys in three scopes; returns how long each took, in milliseconds. */
async function append(service: BaseSessionService, session: Session, times: number): Promise<number[]> {
  const samples: number[] = [];
  for (let n = 0; n < times; n += 1) {
    const actions = createEventActions({ stateDelta: { step: n, 'user:visits': n, 'app:total': n } });
    const from = now();
    await service.appendEvent({ session, event: createEvent({ author: 'bench', actions }) });
    samples.push(now() - from);
  }
  return samples;
}

async function read(service: BaseSessionService, { userId, id }: Session): Promise<number[]> {
  const samples: number[] = [];
  for (let n = 0; n < READS; n += 1) {
    const from = now();
    await service.getSession({ appName: APP, userId, sessionId: id, config: { numRecentEvents: RECENT } });
    samples.push(now() - from);
  }
  return samples;
}

async function measureAll(services: readonly BaseSessionService[]): Promise<Measured[]> {
  const all = services.map((service): Measured => ({ service, appends: [], reads: { 10: [], 500: [], 2_000: [] } }));
  const open = (userId: string) =>
    Promise.all(services.map((service) => service.createSession({ appName: APP, userId, state: {} })));
  const written = await open('appends');
  for (let turn = 0; turn <= TURNS; turn += 1) {
    for (const [n, { service, appends }] of all.entries()) {
      const samples = await append(service, written[n]!, APPENDS);
      if (turn > 0) appends.push(...samples);
    }
  }
  for (const length of LENGTHS) {
    const sessions = await open(`reads-${length}`);
    for (const [n, { service }] of all.entries()) await append(service, sessions[n]!, length);
    for (let turn = 0; turn <= TURNS; turn += 1) {
      for (const [n, { service, reads }] of all.entries()) {
        const samples = await read(service, sessions[n]!);
        if (turn > 0) reads[length].push(...samples);
      }
    }
  }
  return all;
}

/** Statements that a pool sends from now on. */
function countStatements(pool: ReturnType<typeof createPool>): () => number {
  let count = 0;
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => {
      count += 1;
      return query(...args);
    }) as typeof client.query;
  });
  return () => count;
}

const perSecond = (samples: readonly number[]) => 1_000 / (samples.reduce((sum, ms) => sum + ms, 0) / samples.length);

function resultsOf(ours: Measured, adk: Measured, statements: number): Result[] {
  const growth = ({ reads }: Measured) => median(reads[2_000]) / median(reads[500]);
  return [
    {
      name: 'appendEvent, three keys in three scopes, a second',
      ...{ value: perSecond(ours.appends), floor: perSecond(adk.appends), unit: '', target: { shareOfFloor: 3 } },
      detail: `ours: ${spread(ours.appends)}; ADK: ${spread(adk.appends)}`,
    },
    { name: 'appendEvent, p50', value: median(ours.appends), floor: median(adk.appends), unit: 'ms' },
    { name: 'statements of an appendEvent', value: statements, unit: '', target: { atMost: 1 } },
    ...LENGTHS.map((length) => ({
      name: `getSession, newest ${RECENT} of ${length.toLocaleString('en')} events, p50`,
      value: median(ours.reads[length]),
      floor: median(adk.reads[length]),
      unit: 'ms',
    })),
    {
      name: 'getSession of 2,000 events over one of 500',
      ...{ value: growth(ours), floor: growth(adk), unit: '×', target: { atMost: 1.2 } },
    },
  ];
}

/** The floor is ADK's DatabaseSessionService. */
export const state: Figure = {
  name: 'state',
  onRequest: { withinMs: 120_000 },
  measure: async ({ system: { db, databaseUrl } }) => {
    const pool = createPool(databaseUrl);
    const adkUrl = new URL(databaseUrl);
    adkUrl.pathname = '/bench_adk';
    await db.query('CREATE DATABASE bench_adk');
    try {
      const count = countStatements(pool);
      const service = new PerdureSessionService(new PostgresSessionService({ database: pool }));
      const session = await service.createSession({ appName: APP, userId: 'statements', state: {} });
      const before = count();
      await append(service, session, APPENDS);
      const statements = (count() - before) / APPENDS;
      const [ours, adk] = await measureAll([service, new DatabaseSessionService(adkUrl.href)]);
      return resultsOf(ours!, adk!, statements);
    } finally {
      await pool.end();
    }
  },
};
