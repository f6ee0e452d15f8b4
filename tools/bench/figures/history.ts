import { setTimeout as delay } from 'node:timers/promises';
import type { Bench, Figure, Result } from '../figure.ts';
import { HistoryMeter, type HistorySize } from '../history.ts';
import { turn, type TurnAsk } from '../turn.ts';

const TURNS = 8;
const LONG = 100_000;
/** The workflow is behind the turn: it is woken up to a second later, and not at all if the next turn follows before that. */
const WORKFLOW_BEHIND_MS = 1_300;

/** Growth of the history per turn, over several turns of one execution. */
async function perTurn({ system }: Bench, ask: TurnAsk, padding: number): Promise<HistorySize> {
  const sessionId = await system.client.open();
  const meter = new HistoryMeter(system, sessionId);
  await turn(system, sessionId, ask, { padding });
  await delay(WORKFLOW_BEHIND_MS);
  await meter.grown();
  const sum = { events: 0, bytes: 0 };
  for (let n = 0; n < TURNS; n += 1) {
    await turn(system, sessionId, ask, { padding });
    await delay(WORKFLOW_BEHIND_MS);
    const { events, bytes } = await meter.grown();
    sum.events += events;
    sum.bytes += bytes;
  }
  return { events: sum.events / TURNS, bytes: sum.bytes / TURNS };
}

async function results(bench: Bench, name: string, ask: TurnAsk, target: HistorySize): Promise<Result[]> {
  const short = await perTurn(bench, ask, 0);
  const long = await perTurn(bench, { ...ask, size: LONG / 20, output: LONG / 4 }, LONG);
  const of = (kind: 'short' | '100 KB', size: HistorySize): Result[] => [
    { name: `${name}: events, ${kind} texts`, value: size.events, unit: '', target: { atMost: target.events } },
    { name: `${name}: bytes, ${kind} texts`, value: size.bytes, unit: 'B', target: { atMost: target.bytes } },
  ];
  return [...of('short', short), ...of('100 KB', long)];
}

export const history: Figure = {
  name: 'history',
  measure: async (bench) => [
    ...(await results(bench, 'history of a plain turn', {}, { events: 11, bytes: 2_048 })),
    ...(await results(bench, 'history of a tool turn', { tool: true }, { events: 17, bytes: 4_096 })),
  ],
};
