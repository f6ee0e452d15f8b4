/** The result of a step: tool calls and then the next step, a retry after a wait, or the end of the turn. */
export type StepNext<Call, Retry, End> =
  | { kind: 'settled'; calls: readonly Call[] }
  | { kind: 'retry'; retry: Retry }
  | { kind: 'end'; end: End };

/** The actions of a turn. The workflow schedules activities for them; a turn in memory does them itself. */
export interface TurnActions<Call, Retry, End> {
  /** Runs the next step. `attempt` starts at 1 and increases when the model provider fails temporarily. */
  step(attempt: number): Promise<StepNext<Call, Retry, End>>;
  /** Runs one tool call. Returns the turn's end if the call ends the turn. */
  tool(call: Call): Promise<End | undefined>;
  /** Waits before a retry of a step. */
  wait(retry: Retry): Promise<void>;
}

/**
 * The loop of every turn, in a workflow and in memory: runs steps until one ends the turn; after each step its tool calls,
 * in the model's order. Begins with `calls`, those of the last settled step without an outcome.
 */
export async function turnLoop<Call, Retry, End>(
  calls: readonly Call[],
  actions: TurnActions<Call, Retry, End>,
): Promise<End> {
  let open = calls;
  for (;;) {
    for (const call of open) {
      const end = await actions.tool(call);
      if (end !== undefined) return end;
    }
    const next = await retriedStep(actions);
    if (next.kind === 'end') return next.end;
    open = next.calls;
  }
}

async function retriedStep<Call, Retry, End>(
  actions: TurnActions<Call, Retry, End>,
): Promise<Exclude<StepNext<Call, Retry, End>, { kind: 'retry' }>> {
  for (let attempt = 1; ; attempt += 1) {
    const next = await actions.step(attempt);
    if (next.kind !== 'retry') return next;
    await actions.wait(next.retry);
  }
}
