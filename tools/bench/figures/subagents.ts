// Subagents at once under one parent: whether all of them stream, and whether the parent answers commands meanwhile.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { PARENT } from '../agents.ts';
import { now } from '../clock.ts';
import type { Figure } from '../figure.ts';
import type { Moments } from '../model.ts';
import { messageOf } from '../script.ts';
import type { System } from '../servers.ts';
import { percentile, spread } from '../statistics.ts';

const SUBAGENTS = 16;
const ROUNDS = 4;
/** An answer that outlasts the commands; then it stalls, until it is aborted. */
const ANSWER = { chunks: 200, pace: 50, hang: true };
const COMMANDS = 25;
const COMMAND_EVERY_MS = 200;
const CALL_WITHIN_MS = 20_000;

/** One round, in milliseconds. */
interface Round {
  /** The longest time without text, of each child. */
  gaps: number[];
  /** Until the parent has answered each command. */
  commands: number[];
  /** From the abort of the parent until every child's connection to the provider was closed. */
  closed: number;
}

async function childrenOf({ db }: System, parent: string): Promise<string[]> {
  const { rows } = await db.query<{ child_id: string }>('SELECT child_id FROM tasks WHERE parent_id = $1', [parent]);
  return rows.map(({ child_id }) => child_id);
}

/** Milliseconds until a command is answered. */
async function timed(command: Promise<unknown>): Promise<number> {
  const from = now();
  await command;
  return now() - from;
}

async function measureRound(system: System): Promise<Round> {
  const { client, model } = system;
  const parent = await client.open(PARENT);
  const key = randomUUID();
  const subagents = { count: SUBAGENTS, ask: { ...ANSWER, key } };
  await client.submit(parent, messageOf({ key: randomUUID(), subagents }));
  const until = now() + CALL_WITHIN_MS;
  while ((await model.call<number>('requests', { key })) < SUBAGENTS) {
    if (now() > until) throw new Error(`fewer than ${SUBAGENTS} subagents were called`);
    await delay(20);
  }
  const children = await childrenOf(system, parent);
  const followed = children.map((child) => client.follow(child, 1));
  const commands: number[] = [];
  for (let n = 0; n < COMMANDS; n += 1) {
    commands.push(await timed(client.publish(parent)));
    await delay(COMMAND_EVERY_MS);
  }
  const sentAt = now();
  commands.push(await timed(client.abort(parent)));
  const moments = await model.call<Moments[]>('moments', { key });
  const answers = await Promise.all(followed);
  for (const { last } of answers) if (last !== 'abort') throw new Error(`a subagent ended with ${last}`);
  return {
    gaps: answers.map(({ longestGap }) => longestGap),
    commands,
    closed: Math.max(...moments.map(({ closedAt }) => closedAt - sentAt)),
  };
}

export const subagents: Figure = {
  name: 'subagents',
  onRequest: { withinMs: 120_000 },
  measure: async ({ system }) => {
    const rounds: Round[] = [];
    for (let n = 0; n < ROUNDS; n += 1) rounds.push(await measureRound(system));
    const gaps = rounds.flatMap((round) => round.gaps);
    const commands = rounds.flatMap((round) => round.commands);
    const name = `${SUBAGENTS} subagents at once`;
    return [
      {
        ...{ name: `${name}: longest gap of a stream, slowest`, value: Math.max(...gaps), unit: 'ms' },
        ...{ target: { atMost: 1_000 }, detail: spread(gaps) },
      },
      {
        ...{ name: `${name}: the parent answers a command, p99`, value: percentile(commands, 0.99), unit: 'ms' },
        ...{ target: { atMost: 500 }, detail: spread(commands) },
      },
      {
        name: `${name}: abort of the parent to all connections closed, slowest`,
        value: Math.max(...rounds.map(({ closed }) => closed)),
        unit: 'ms',
        target: { atMost: 1_000 },
      },
    ];
  },
};
