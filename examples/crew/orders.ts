// Who of a crew has something to do: a function of the initiative alone, so that it goes on wherever it was left.

export type Role = 'worker' | 'verifier' | 'orchestrator';

/** A message to an idle member of this role. */
export interface Order {
  role: Role;
  text: string;
}

/** The members of an initiative's view that are used here. */
export interface CrewView {
  initiative: { status: string; review: unknown };
  state: { position: { phase: number; plan: number; wave: number } };
  phases: {
    phase: number;
    name: string;
    status: string;
    plans: { plan: number; tasks: { wave: number; status: string; assigned_to: string | null }[] }[];
  }[];
  decisions: { context: string }[];
  blockers: { id: string; status: string }[];
}

/** All phases are completed and verified. */
export function isOver(view: CrewView): boolean {
  return view.initiative.status === 'completed' && unverified(view) === undefined;
}

/**
 * What idle members have to do now.
 * @param busy the roles of those who are not idle
 */
export function ordersFor(view: CrewView, busy: readonly Role[]): Order[] {
  const alone = (role: Role, text: string): Order[] => (busy.includes(role) ? [] : [{ role, text }]);
  if (view.initiative.review !== null) return alone('verifier', 'The workspace is not as it was left: review it.');
  // What is built next relies on it.
  const phase = unverified(view);
  if (phase !== undefined) {
    const bypassed = view.blockers.filter(({ status }) => status === 'bypassed').map(({ id }) => id);
    const again = bypassed.length === 0 ? '' : ` Was this solved: ${bypassed.join(', ')}?`;
    return alone('verifier', `Verify phase ${phase.phase}, ${phase.name}.${again}`);
  }
  const active = view.blockers.filter(({ status }) => status === 'active').map(({ id }) => id);
  if (active.length > 0) return alone('orchestrator', `Let the work go on: ${active.join(', ')}.`);
  const { position } = view.state;
  const plan = view.phases
    .find((each) => each.phase === position.phase)
    ?.plans.find(({ plan: n }) => n === position.plan);
  const tasks = plan?.tasks.filter(({ wave, status }) => wave === position.wave && status !== 'completed') ?? [];
  const free = tasks.filter(({ status, assigned_to }) => status !== 'blocked' && assigned_to === null).length;
  const held = tasks.filter(({ assigned_to }) => assigned_to !== null).length;
  // A worker that holds no task yet is about to take one.
  const taking = Math.max(0, busy.filter((role) => role === 'worker').length - held);
  return Array.from({ length: Math.max(0, free - taking) }, () => ({ role: 'worker', text: 'Take the next task.' }));
}

/** The first completed phase about whose verification nothing was decided. */
function unverified({ phases, decisions }: CrewView): CrewView['phases'][number] | undefined {
  const verified = new Set(decisions.map(({ context }) => /^Verification of phase (\d+)/i.exec(context)?.[1]));
  return phases.find(({ phase, status }) => status === 'completed' && !verified.has(String(phase)));
}
