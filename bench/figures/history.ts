import type { Bench, Figure, Result } from '../figure.ts';
import { rest, turn, type TurnAsk } from '../turn.ts';

const TURNS = 8;
const LONG = 100_000;

interface Size {
  events: number;
  bytes: number;
}

async function sizeOf({ system }: Bench, sessionId: string): Promise<Size> {
  const { historyLength, historySize } = await system.client.temporal.workflow.getHandle(sessionId).describe();
  return { events: historyLength, bytes: historySize ?? 0 };
}

/** What a turn adds to the history, taken over several turns of one execution. */
async function perTurn(bench: Bench, ask: TurnAsk, padding: number): Promise<Size> {
  const { system } = bench;
  const sessionId = await system.client.open();
  const send = async () => {
    await turn(system, sessionId, ask, { padding });
    await rest();
    await rest();
  };
  await send();
  const before = await sizeOf(bench, sessionId);
  for (let n = 0; n < TURNS; n += 1) await send();
  const after = await sizeOf(bench, sessionId);
  return { events: (after.events - before.events) / TURNS, bytes: (after.bytes - before.bytes) / TURNS };
}

async function results(bench: Bench, name: string, ask: TurnAsk, target: Size): Promise<Result[]> {
  const short = await perTurn(bench, ask, 0);
  const long = await perTurn(bench, { ...ask, size: LONG / 20, output: LONG / 4 }, LONG);
  const of = (kind: 'short' | '100 KB', size: Size): Result[] => [
    { name: `${name}: events, ${kind} texts`, value: size.events, unit: '', target: target.events },
    { name: `${name}: bytes, ${kind} texts`, value: size.bytes, unit: 'B', target: target.bytes },
  ];
  return [...of('short', short), ...of('100 KB', long)];
}

export const history: Figure = {
  name: 'history',
  measure: async (bench) => [
    ...(await results(bench, 'history of a plain turn', {}, { events: 11, bytes: 2_048 })),
    ...(await results(bench, 'history of a tool turn', { tool: true }, { events: 23, bytes: 4_096 })),
  ],
};
