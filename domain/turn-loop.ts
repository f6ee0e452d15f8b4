/** The result of a step: tool calls and then the next step, a retry after a wait, or the end of the turn. */
export type StepNext<Call, Retry, End> =
  | { kind: 'settled'; calls: readonly Call[] }
  | { kind: 'retry'; retry: Retry }
  | { kind: 'end'; end: End };

/** Where a turn stands: the number of its next step, and the calls of the last settled step that have no outcome yet. */
export interface TurnPosition<Call> {
  step: number;
  calls: readonly Call[];
}

/** A part of a turn. `step` of a tool call is the number of the step that follows it. */
export type TurnUnit<Call> = { kind: 'step'; step: number } | { kind: 'tool'; step: number; call: Call };

/** What a turn does next: the tool calls of its last step in the model's order, then the next step. */
export function nextUnit<Call>({ step, calls }: TurnPosition<Call>): TurnUnit<Call> {
  const call = calls[0];
  return call === undefined ? { kind: 'step', step } : { kind: 'tool', step, call };
}

/** Where a turn stands once `unit` has settled; `calls` are those of a step. */
export function positionAfter<Call>(
  { calls }: Pick<TurnPosition<Call>, 'calls'>,
  unit: TurnUnit<Call>,
  callsOfStep: readonly Call[],
): TurnPosition<Call> {
  return unit.kind === 'step'
    ? { step: unit.step + 1, calls: callsOfStep }
    : { step: unit.step, calls: calls.slice(1) };
}

/** The actions of a turn. The workflow schedules activities for them; a turn in memory does them itself. */
export interface TurnActions<Call, Retry, End> {
  /** Runs the next step. `attempt` starts at 1 and increases after each temporary failure, of the provider or of a bucket. */
  step(attempt: number): Promise<StepNext<Call, Retry, End>>;
  /** Runs one tool call. Returns the turn's end if the call ends the turn. */
  tool(call: Call): Promise<End | undefined>;
  /** Waits before a retry of a step. */
  wait(retry: Retry): Promise<void>;
}

/** The loop of every turn, in a workflow and in memory: runs one unit after the other until one ends the turn. */
export async function turnLoop<Call, Retry, End>(
  from: TurnPosition<Call>,
  actions: TurnActions<Call, Retry, End>,
): Promise<End> {
  let at = from;
  for (;;) {
    const unit = nextUnit(at);
    if (unit.kind === 'tool') {
      const end = await actions.tool(unit.call);
      if (end !== undefined) return end;
      at = positionAfter(at, unit, []);
    } else {
      const next = await retriedStep(actions);
      if (next.kind === 'end') return next.end;
      at = positionAfter(at, unit, next.calls);
    }
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
