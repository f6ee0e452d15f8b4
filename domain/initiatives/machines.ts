/** The state machines of initiatives. A work session is one agent's stretch of work on an initiative. */
export const MACHINE_NAMES = ['initiative', 'phase', 'plan', 'task', 'blocker', 'work_session'] as const;
export type MachineName = (typeof MACHINE_NAMES)[number];

/** What a decision is about. */
export const DECISION_KINDS = ['technology', 'architecture', 'trade-off', 'preference', 'constraint'] as const;

interface Machine {
  /** The status at creation. */
  first: string;
  /** The next status by status and event. A pair that is not here is illegal. */
  transitions: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/**
 * The only definition of legal transitions. The table `initiative_transitions` is filled from it, and triggers refuse every
 * other change of a status.
 */
export const MACHINES = {
  // paused: the position's phase is paused. escalated: every phase that is left is, so that the user has to act.
  initiative: {
    first: 'active',
    transitions: {
      active: { pause: 'paused', escalate: 'escalated', complete: 'completed' },
      paused: { resume: 'active', escalate: 'escalated' },
      escalated: { resume: 'active', pause: 'paused' },
      completed: {},
    },
  },
  // paused: all tasks that are left are blocked.
  phase: {
    first: 'active',
    transitions: {
      active: { pause: 'paused', complete: 'completed' },
      paused: { resume: 'active' },
      completed: {},
    },
  },
  plan: { first: 'active', transitions: { active: { complete: 'completed' }, completed: {} } },
  task: {
    first: 'open',
    transitions: {
      open: { start: 'in_progress', block: 'blocked' },
      in_progress: { complete: 'completed', block: 'blocked', reset: 'open' },
      blocked: { unblock: 'open' },
      completed: {},
    },
  },
  // A bypassed blocker may be bypassed in another way.
  blocker: {
    first: 'active',
    transitions: {
      active: { bypass: 'bypassed', resolve: 'resolved' },
      bypassed: { bypass: 'bypassed', resolve: 'resolved' },
      resolved: {},
    },
  },
  work_session: {
    first: 'active',
    transitions: { active: { end: 'ended', crash: 'crashed' }, ended: {}, crashed: {} },
  },
} as const satisfies Record<MachineName, Machine>;

/** The states of a machine. */
export type StatusOf<Name extends MachineName> = keyof (typeof MACHINES)[Name]['transitions'] & string;

/** The states of a machine, in the order of its table. */
export function statusesOf<Name extends MachineName>(name: Name): [StatusOf<Name>, ...StatusOf<Name>[]] {
  return Object.keys(MACHINES[name].transitions) as [StatusOf<Name>, ...StatusOf<Name>[]];
}

/** A row of `initiative_transitions`. */
export interface MachineRow {
  machine: MachineName;
  status: string;
  event: string;
  next: string;
}

/** Every legal transition of every machine, in the order of the tables. */
export function machineRows(): MachineRow[] {
  return MACHINE_NAMES.flatMap((machine) => {
    const { transitions }: Machine = MACHINES[machine];
    return Object.entries(transitions).flatMap(([status, events]) =>
      Object.entries(events).map(([event, next]) => ({ machine, status, event, next })),
    );
  });
}

/** The status of a position: that of its task, unless its phase is paused or the initiative escalated or completed. */
export const POSITION_STATUSES = ['open', 'in_progress', 'blocked', 'paused', 'escalated', 'completed'] as const;
