import { CheckBadgeIcon } from '@heroicons/react/20/solid';
import { useSyncExternalStore } from 'react';
import { nextPhase, type Phase, PHASES } from '../../domain/phases.ts';
import type { PageCommand } from '../api/api.ts';
import { confirmed } from '../design/confirmation.tsx';
import type { SessionFiles } from '../session/session-files.ts';
import type { View } from '../session/view.ts';
import { FileLink } from './file-link.tsx';

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

/** Whether the session's agent moves it from phase to phase. */
export function showsPhases({ agent, agents, phase }: View): boolean {
  const known = agents?.items.find(({ id }) => id === (agent ?? agents.default));
  return phase !== 'chatting' || known?.uses_phases === true;
}

/** Asks the user to confirm giving up a build. */
export function confirmCancel(what: string): Promise<boolean> {
  return confirmed({
    title: `Give up ${what}?`,
    text: 'A run in flight ends, and the session goes back to chatting.',
    action: 'Give up',
  });
}

/** The four phases in order, and the user's commands in the current one. */
export function PhaseTrack(props: { view: View; files: SessionFiles; onCommand: (name: PageCommand) => void }) {
  const { view, files, onCommand } = props;
  const current = PHASES.indexOf(view.phase);
  const command = async (name: PageCommand) => {
    if (name !== 'cancel' || (await confirmCancel('this build'))) onCommand(name);
  };
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
          <button key={name} type="button" className={className} title={hint} onClick={() => void command(name)}>
            {label}
          </button>
        ))}
        {view.phase === 'done' && <Published files={files} />}
      </div>
    </div>
  );
}

/** What was published: the site, if the session has built one. */
function Published({ files }: { files: SessionFiles }) {
  const { preview } = useSyncExternalStore(files.view.subscribe, files.view.get);
  return (
    <p className="published">
      <CheckBadgeIcon aria-hidden="true" />
      <span>Published</span>
      {preview !== null && (
        <FileLink files={files} url={() => files.view.get().preview?.url}>
          Open the site
        </FileLink>
      )}
    </p>
  );
}
