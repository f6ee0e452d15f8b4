/** What a step leads to: tool calls and then the next step, another try after a wait, or the end of the turn. */
export type StepNext<Call, Retry, End> =
  | { kind: 'settled'; calls: readonly Call[] }
  | { kind: 'retry'; retry: Retry }
  | { kind: 'end'; end: End };

/** What a turn is made of. The workflow schedules activities for it; a turn in memory does it itself. */
export interface TurnActions<Call, Retry, End> {
  /** Makes the next step. `attempt` counts from 1 and rises when the model provider fails temporarily. */
  step(attempt: number): Promise<StepNext<Call, Retry, End>>;
  /** Runs one tool call. Answers the turn's end where it ends the turn. */
  tool(call: Call): Promise<End | undefined>;
  /** Waits before a step is tried again. */
  wait(retry: Retry): Promise<void>;
}

/**
 * The loop of every turn, in a workflow and in memory: steps until one ends the turn, with the tool calls of each in the
 * model's order before the next. Begins with `calls`, those of the last settled step without an outcome.
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
