/** The states of a session's state machine. */
export const PHASES = ['chatting', 'building', 'verifying', 'done'] as const;
export type Phase = (typeof PHASES)[number];

/** The events that change a session's phase. */
export const PHASE_EVENTS = ['open_existing', 'start_build', 'todo_done_build', 'publish', 'revert', 'cancel'] as const;
export type PhaseEvent = (typeof PHASE_EVENTS)[number];

/**
 * The state machine, the only definition of legal transitions: the table `phase_transitions` and the diagram in the docs are
 * generated from it. A pair that is not here is illegal.
 */
export const TRANSITIONS: Readonly<Record<Phase, Readonly<Partial<Record<PhaseEvent, Phase>>>>> = {
  chatting: { open_existing: 'chatting', start_build: 'building' },
  building: { todo_done_build: 'verifying', cancel: 'chatting' },
  verifying: { publish: 'done', revert: 'building', cancel: 'chatting' },
  done: { open_existing: 'chatting', start_build: 'building' },
};

/** The phase after `event` in `phase`; undefined if the transition is illegal. */
export function nextPhase(phase: Phase, event: PhaseEvent): Phase | undefined {
  return TRANSITIONS[phase][event];
}

/** Every legal transition, in the order of the table. */
export function transitionRows(): { phase: Phase; event: PhaseEvent; next: Phase }[] {
  return PHASES.flatMap((phase) =>
    PHASE_EVENTS.flatMap((event) => {
      const next = TRANSITIONS[phase][event];
      return next ? [{ phase, event, next }] : [];
    }),
  );
}

/** The table as a Mermaid state diagram for the docs. */
export function phaseDiagram(): string {
  const arrows = transitionRows().map(({ phase, event, next }) => `    ${phase} --> ${next}: ${event}`);
  return ['stateDiagram-v2', '    [*] --> chatting', ...arrows].join('\n');
}
