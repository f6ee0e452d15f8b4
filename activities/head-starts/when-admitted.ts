import { ApplicationFailure } from '@temporalio/activity';
import type { StepArgs, StepOutcome } from '../../domain/activities.ts';
import { findStartableRun } from '../../store/runs.ts';
import { readOwner } from '../../store/sessions.ts';
import type { ActivityContext } from '../activity-context.ts';
import type { Admitted } from '../admission/admission.ts';
import type { Attempt } from '../claims/attempt.ts';

/**
 * Makes a step once this worker has room for its stream. Only a turn that nobody has begun waits; meanwhile its message stays
 * queued, can be cancelled or aborted, and another worker may begin it.
 * @param streamStepActivity is given what counts the stream of the step, once it has been claimed
 * @throws {ApplicationFailure} `Shutdown`: this worker stops meanwhile
 */
export async function whenAdmitted(
  context: ActivityContext,
  args: StepArgs,
  attempt: Attempt,
  streamStepActivity: (countStream: () => Disposable) => Promise<StepOutcome>,
): Promise<StepOutcome> {
  const { admission } = context;
  const atOnce = () => streamStepActivity(() => admission.begin());
  if (!(await isToWait(context, args, attempt))) return atOnce();
  const admitted = await admit(context, args, attempt.stop.signal);
  if (admitted === undefined) throw ApplicationFailure.retryable('Shutdown', 'Shutdown');
  // An activity waits for the outcome in the row.
  if (admitted === 'elsewhere') return attempt.number === 0 ? { kind: 'lost' } : atOnce();
  using held = new DisposableStack();
  held.use(admitted);
  const outcome = await streamStepActivity(() => new DisposableStack());
  // A load has overtaken the claim.
  if (outcome.kind === 'lost') admission.keepFor(args.session_id, held.move());
  return outcome;
}

/** Whether it is the first step of a turn that nobody has begun. */
async function isToWait({ db }: ActivityContext, args: StepArgs, { number, hasBegun }: Attempt): Promise<boolean> {
  if (args.step > 0 || args.attempt > 1 || args.compaction === 'done' || hasBegun === true) return false;
  // A later attempt at the activity may come from a worker in which the turn waited, too.
  return (
    number <= 1 || (await findStartableRun(db, args.session_id, args.run_seq).catch(() => undefined)) !== undefined
  );
}

async function admit(
  { admission, db }: ActivityContext,
  { session_id: session, run_seq: run }: StepArgs,
  signal: AbortSignal,
): Promise<Admitted | 'elsewhere' | undefined> {
  const admitted = admission.tryAdmit(session);
  if (admitted !== undefined) return admitted;
  // While Postgres is away all turns without a known user share one place.
  const user = await readOwner(db, session).catch(() => undefined);
  return admission.admit({ user: user ?? '', session, run }, signal);
}
