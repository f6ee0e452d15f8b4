import { nextPhase, type Phase, PHASES } from '../domain/phases.ts';
import type { CommandName } from './api.ts';
import type { View } from './view.ts';

export const PHASE_WORDS: Record<Phase, string> = {
  chatting: 'Chatting',
  building: 'Building',
  verifying: 'Verifying',
  done: 'Done',
};

/** Commands of the user; domain/ decides which the phase allows. */
const COMMANDS = [
  { name: 'publish', label: 'Publish', hint: 'Accept the site and finish', className: 'primary' },
  { name: 'revert', label: 'Revert', hint: 'Go back to building', className: '' },
  { name: 'cancel', label: 'Cancel build', hint: 'Give up the build and go back to chatting', className: '' },
] as const;

/** Asks the user to confirm giving up a build. */
export function confirmCancel(what: string): boolean {
  return confirm(`Give up ${what} and go back to chatting?`);
}

/** The four phases in order, and the user's commands in the current one. */
export function PhaseTrack({ view, onCommand }: { view: View; onCommand: (name: CommandName) => void }) {
  const current = PHASES.indexOf(view.phase);
  return (
    <div className="bar" data-focus-home=".phases">
      <p className="unseen" aria-live="polite">
        Phase: {PHASE_WORDS[view.phase]}
      </p>
      <ol className="phases" aria-label="Phases of the session" tabIndex={-1}>
        {PHASES.map((phase, index) => (
          <li
            key={phase}
            className={index < current ? 'passed' : ''}
            aria-current={phase === view.phase ? 'step' : undefined}
          >
            {PHASE_WORDS[phase]}
          </li>
        ))}
      </ol>
      <div className="commands">
        {COMMANDS.filter(({ name }) => nextPhase(view.phase, name)).map(({ name, label, hint, className }) => (
          <button
            key={name}
            type="button"
            className={className}
            title={hint}
            onClick={() => (name !== 'cancel' || confirmCancel('this build')) && onCommand(name)}
          >
            {label}
          </button>
        ))}
      </div>
    </div>
  );
}
