import { randomUUID } from 'node:crypto';
import { now } from '../clock.ts';
import type { Bench, Figure, Result } from '../figure.ts';
import type { Moments } from '../model.ts';
import type { System } from '../servers.ts';
import { LOG_SETTINGS, statementsIn, withLogging } from '../statement-log.ts';
import { mean } from '../statistics.ts';
import { rest, turn, type Turn, type TurnAsk } from '../turn.ts';

const TURNS = 40;
const WARM_UP = 5;
const WITHIN_MS = 3 * 60_000;

/** Something that happens in a turn, in milliseconds from the sending of the message. */
interface Moment {
  what: string;
  from: number;
  to: number;
}

/** The mean times of each statement and model call of a turn, and of what its reader sees. */
async function stagesOf(
  { system }: Bench,
  name: string,
  ask: TurnAsk,
  by: 'sender' | 'reader' = 'sender',
  pause: () => Promise<void> = rest,
): Promise<Result[]> {
  const sessionId = await system.client.open();
  for (let n = 0; n < WARM_UP; n += 1) {
    await turn(system, sessionId, ask, { by });
    await pause();
  }
  const turns: { key: string; seen: Turn }[] = [];
  const log = await withLogging(system, LOG_SETTINGS, async () => {
    for (let n = 0; n < TURNS; n += 1) {
      const key = randomUUID();
      turns.push({ key, seen: await turn(system, sessionId, { key, ...ask }, { by }) });
      await pause();
    }
  });
  const statements = statementsIn(log);
  const all = await Promise.all(
    turns.map(async ({ key, seen }) => {
      const { startedAt, total } = seen;
      const own = statements.filter(({ to }) => to >= startedAt && to <= startedAt + total);
      return numbered([
        ...own.map(({ who, what, from, to }) => ({
          what: `${who} ${what}`,
          from: from - startedAt,
          to: to - startedAt,
        })),
        ...(await modelCalls(system, key, startedAt)),
        { what: 'accepted', from: 0, to: seen.accepted },
        { what: 'first text', from: 0, to: seen.firstText },
        { what: 'end', from: 0, to: total },
      ]);
    }),
  );
  return meansOf(name, all);
}

async function modelCalls({ model }: System, key: string, startedAt: number): Promise<Moment[]> {
  // The benchmark's clock is not that of the epoch.
  const epoch = performance.timeOrigin + performance.now() - now();
  const calls = await model.call<Moments[]>('moments', { key });
  return calls.map(({ cameAt, closedAt }) => ({
    what: 'model',
    from: cameAt + epoch - startedAt,
    to: closedAt + epoch - startedAt,
  }));
}

/** Numbers what happens several times in a turn. */
function numbered(moments: Moment[]): Map<string, Moment> {
  const named = new Map<string, Moment>();
  for (const moment of moments.toSorted((a, b) => a.from - b.from)) {
    let n = 1;
    while (named.has(`${moment.what} ${n}`)) n += 1;
    named.set(`${moment.what} ${n}`, moment);
  }
  return named;
}

function meansOf(name: string, turns: Map<string, Moment>[]): Result[] {
  const whats = new Set(turns.flatMap((each) => [...each.keys()]));
  return [...whats]
    .map((what) => {
      const found = turns.flatMap((each) => each.get(what) ?? []);
      return {
        what,
        share: found.length / turns.length,
        from: mean(found.map((f) => f.from)),
        to: mean(found.map((f) => f.to)),
      };
    })
    .filter(({ share }) => share >= 0.3)
    .toSorted((a, b) => a.from - b.from || a.to - b.to)
    .map(({ what, share, from, to }) => ({
      name: `${name}: ${what}`,
      value: to,
      unit: 'ms',
      detail: `from ${from.toFixed(1)} ms on, for ${(to - from).toFixed(1)} ms, in ${(share * 100).toFixed(0)} % of turns`,
    }));
}

export const stages: Figure = {
  name: 'stages',
  onRequest: { withinMs: WITHIN_MS },
  measure: async (bench) => [
    ...(await stagesOf(bench, 'plain turn', {})),
    ...(await stagesOf(bench, 'tool turn', { tool: true })),
    ...(await stagesOf(bench, 'first chunk', { chunks: 60, pace: 2 }, 'reader')),
    ...(await stagesOf(bench, 'plain turn, back to back', {}, 'sender', async () => {})),
    ...(await stagesOf(bench, 'tool turn, back to back', { tool: true }, 'sender', async () => {})),
  ],
};
