import { describe, expect, it } from 'vitest';
import { planCompaction, type SizedMessage } from './compaction-plan.ts';
import { DEFAULT_COMPACTION, usableTokens } from './compaction.ts';
import { planPrune } from './plan-prune.ts';

/** `u1` to `u3` with their answers, and `u4`, which is being answered. Tokens by id; 10 otherwise. */
function conversation(tokens: Record<string, number> = {}) {
  const ids = ['s', 'u1', 'a1', 'u2', 'a2', 'u3', 'a3', 'u4'];
  return ids.map((id) => ({ id, role: id.startsWith('u') ? 'user' : 'assistant', tokens: tokens[id] ?? 10 }));
}

const plan = (tokens?: Record<string, number>, settings = {}) =>
  planCompaction(conversation(tokens), 'u4', 1_000, { ...DEFAULT_COMPACTION, ...settings });

describe('what a compaction summarizes', () => {
  it('X6 all before the newest two whole turns; the unanswered message is not one of them', () => {
    const expected = { summarized: ['s', 'u1', 'a1'], turns: 1, tailStart: 'u2', isOverBudget: false, isSplit: false };
    expect(plan()).toEqual(expected);
  });

  it('X5 the turns of an earlier summary count as well, since the new one stands for them, too', () => {
    const [summary, ...rest] = conversation();
    const planned = planCompaction([{ ...summary!, turns: 7 }, ...rest], 'u4', 1_000, DEFAULT_COMPACTION);
    expect(planned).toMatchObject({ summarized: ['s', 'u1', 'a1'], turns: 8 });
    expect(
      planCompaction([{ ...summary!, turns: 7 }, ...rest.slice(-3)], 'u4', 1_000, DEFAULT_COMPACTION),
    ).toBeUndefined();
  });

  it('X6 tail_turns: that many stay', () => {
    expect(plan({}, { tail_turns: 1 })).toMatchObject({ summarized: ['s', 'u1', 'a1', 'u2', 'a2'], tailStart: 'u3' });
    expect(plan({}, { tail_turns: 3 })).toBeUndefined();
  });

  it('X6 tail_budget_pct: over their share of usable, one stays', () => {
    expect(plan({ a2: 250 })).toMatchObject({ tailStart: 'u3', turns: 2, isOverBudget: true });
    expect(plan({ a2: 250 }, { tail_budget_pct: 0.5 })).toMatchObject({ tailStart: 'u2', isOverBudget: false });
  });

  it('X6 split_last_turn: one that is over its share by itself is split', () => {
    expect(plan({ a3: 300 })).toMatchObject({ tailStart: 'u3', isSplit: false });
    expect(plan({ a3: 300 }, { split_last_turn: true })).toMatchObject({ tailStart: 'u3', isSplit: true });
  });

  it('X6 by hand the unanswered message, as after a rewind, is not one of the turns either; one that was answered is', () => {
    const byHand = (...more: SizedMessage[]) =>
      planCompaction([...conversation(), ...more], null, 1_000, { ...DEFAULT_COMPACTION, tail_turns: 1 });
    expect(byHand()).toMatchObject({ tailStart: 'u3', turns: 2 });
    expect(byHand({ id: 'a prune', role: 'assistant', tokens: 0 })).toMatchObject({ tailStart: 'u3', turns: 2 });
    expect(byHand({ id: 'a4', role: 'assistant', tokens: 10 })).toMatchObject({ tailStart: 'u4', turns: 3 });
  });

  it('X6 with nothing but a message there is nothing to summarize', () => {
    const only: SizedMessage[] = [{ id: 'u', role: 'user', tokens: 10 }];
    expect(planCompaction(only, null, 1_000, DEFAULT_COMPACTION)).toBeUndefined();
    expect(planCompaction([], null, 1_000, DEFAULT_COMPACTION)).toBeUndefined();
  });
});

describe('the usable window', () => {
  const model = (contextLimit: number, maxOutput: number) => ({ contextLimit, maxInput: contextLimit, maxOutput });

  it('X5 reserve is the smaller of 20,000 and the largest output, unless reserve_tokens is set', () => {
    expect(usableTokens(model(200_000, 64_000), {})).toBe(180_000);
    expect(usableTokens(model(200_000, 4_000), {})).toBe(196_000);
    expect(usableTokens(model(200_000, 64_000), { reserve_tokens: 1_000 })).toBe(199_000);
  });

  it('X5 leaves room for the longest answer that the provider is told: the agent’s, or else the entry’s of PERDURE_MODELS', () => {
    const told = { ...model(128_000, 50_000), ownMaxOutput: 50_000 };
    expect(usableTokens(told, {})).toBe(78_000);
    expect(usableTokens(told, { reserve_tokens: 1_000 })).toBe(78_000);
    expect(usableTokens(told, { reserve_tokens: 60_000 })).toBe(68_000);
    expect(usableTokens(told, { max_output_tokens: 4_000 })).toBe(108_000);
    expect(usableTokens(model(128_000, 50_000), { max_output_tokens: 30_000 })).toBe(98_000);
    // More than half of the window is not told.
    expect(usableTokens({ ...model(128_000, 128_000), ownMaxOutput: 64_000 }, {})).toBe(64_000);
  });

  it('X5 leaves a small model at least half of its window, and none more than its longest input', () => {
    expect(usableTokens(model(8_000, 400), { reserve_tokens: 20_000 })).toBe(4_000);
    expect(usableTokens({ ...model(200_000, 4_000), maxInput: 100_000 }, {})).toBe(100_000);
  });
});

describe('what a prune takes', () => {
  const outputs = ['a', 'b', 'c', 'd'].map((tool_call_id) => {
    return { tool_call_id, tokens: 600, isProtected: tool_call_id === 'c', isCurrent: tool_call_id === 'd' };
  });
  const pruned = (enough: number, settings = {}) =>
    planPrune(outputs, enough, { prune_min_tokens: 500, prune_keep: 0, ...settings }).map(({ tool_call_id: id }) => id);

  it('X9 the newest of finished turns first, then the running turn’s, and nothing protected', () => {
    expect(pruned(Infinity)).toEqual(['b', 'a', 'd']);
    expect(pruned(601)).toEqual(['b', 'a']);
    expect(pruned(600)).toEqual(['b']);
  });

  it('X9 spares small outputs, and the newest large ones', () => {
    expect(pruned(Infinity, { prune_min_tokens: 601 })).toEqual([]);
    expect(pruned(Infinity, { prune_keep: 1 })).toEqual(['b', 'a']);
    expect(pruned(Infinity, { prune_keep: 9 })).toEqual([]);
  });
});
