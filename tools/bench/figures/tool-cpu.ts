import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Figure } from '../figure.ts';
import { cpuOfTurn, cpuRows, load } from '../load.ts';
import { turn } from '../turn.ts';

const SESSIONS = 24;
/** Longer than a workflow hears of its turns late, so that each turn has a wake-up of its own. */
const THINK_MS = 1_300;
const WARM_UP_MS = 5_000;
const MS = 12_000;

/** CPU of turns with a tool, in conversations that pause, with what idle workers and servers use meanwhile. */
export const toolCpu: Figure = {
  name: 'tool-cpu',
  onRequest: { withinMs: 3 * 60_000 },
  measure: async ({ system, floor }) => {
    const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => system.client.open()));
    const paused = (take: () => Promise<unknown>) => async () => {
      await delay(THINK_MS * (0.8 + Math.random() * 0.4));
      await take();
    };
    const bare = await load(
      system.pids,
      sessions.map(floor).map((talk) => paused(() => talk.turn({ key: randomUUID(), tool: true }))),
      { warmUpMs: WARM_UP_MS, ms: MS },
    );
    const ours = await load(
      system.pids,
      sessions.map((id) => paused(() => turn(system, id, { tool: true }))),
      { warmUpMs: WARM_UP_MS, ms: MS },
    );
    return cpuRows('CPU of a tool turn', [ours], Object.keys(ours.cpu), { floor: cpuOfTurn([bare]) });
  },
};
