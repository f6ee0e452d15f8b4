import { useState } from 'react';
import type { InitiativeBlocker } from '../../wire/initiative-views.ts';
import { ActionForm } from '../initiative-parts/action-form.tsx';
import { Entry, First, Fold, StatusTag, When, Words } from '../initiative-parts/entry.tsx';
import type { InitiativeApi } from '../initiative-parts/initiative-api.ts';

/** The most characters of the names of added tasks, one a line. */
const MOST_NAMES = 50_000;
const MOST_RESOLVED = 50;

/** What is being done with a blocker. */
interface Acting {
  id: string;
  how: 'resolve' | 'bypass';
}

/** Active blockers first, then bypassed ones; resolved ones are folded. */
export function Blockers({ api, blockers }: { api: InitiativeApi; blockers: readonly InitiativeBlocker[] }) {
  const [acting, setActing] = useState<Acting>();
  // One that was resolved elsewhere stays while its form is open: what was typed there is not lost.
  const isShown = ({ id, status }: InitiativeBlocker) => status !== 'resolved' || id === acting?.id;
  const unresolved = blockers.filter(isShown).toSorted((one, two) => rank(one) - rank(two));
  const resolved = blockers.filter((blocker) => !isShown(blocker)).toReversed();
  return (
    <section id="blockers" aria-labelledby="blockers-title" tabIndex={-1} data-focus-home="#blockers">
      <h2 id="blockers-title">Blockers</h2>
      {unresolved.length === 0 && <p className="note">Nothing is blocked.</p>}
      <ul className="cards">
        {unresolved.map((blocker) => (
          <Blocker
            key={blocker.id}
            api={api}
            blocker={blocker}
            acting={acting?.id === blocker.id ? acting.how : undefined}
            onAct={(how) => setActing(how && { id: blocker.id, how })}
          />
        ))}
      </ul>
      {resolved.length > 0 && (
        <Fold label={`${resolved.length} resolved`}>
          <ul className="cards">
            <First of={resolved} most={MOST_RESOLVED} name="resolved blockers">
              {(blocker) => <Blocker key={blocker.id} api={api} blocker={blocker} onAct={() => {}} />}
            </First>
          </ul>
        </Fold>
      )}
    </section>
  );
}

function rank({ status }: InitiativeBlocker): number {
  return status === 'active' ? 0 : 1;
}

interface BlockerProps {
  api: InitiativeApi;
  blocker: InitiativeBlocker;
  acting?: Acting['how'] | undefined;
  onAct: (how: Acting['how'] | undefined) => void;
}

function Blocker({ api, blocker, acting, onAct }: BlockerProps) {
  const { id, status, description, identified_at, affects, blocked_tasks, workaround, resolution } = blocker;
  const names = (tasks: InitiativeBlocker['blocked_tasks']) => tasks.map(({ name }) => name);
  return (
    <li id={`blocker-${id}`} className="card" data-status={status} tabIndex={-1}>
      <div className="row">
        <h3>{id}</h3>
        <StatusTag status={status} />
        <span className="note">
          since <When at={identified_at} />
        </span>
      </div>
      <Words text={description} />
      <Entry name="Affects">{affects}</Entry>
      <Entry name={status === 'active' ? 'Blocked tasks' : 'Tasks that were blocked'}>{names(blocked_tasks)}</Entry>
      <Entry name="Workaround">{workaround}</Entry>
      <Entry name="Tasks of the workaround">{names(blocker.workaround_tasks)}</Entry>
      <Entry name="Resolution">{resolution}</Entry>
      {status !== 'resolved' && acting === undefined && (
        <p className="commands">
          <button type="button" className="primary" aria-label={`Resolve ${id}`} onClick={() => onAct('resolve')}>
            Resolve
          </button>
          <button type="button" aria-label={`Bypass ${id}`} onClick={() => onAct('bypass')}>
            {status === 'bypassed' ? 'Bypass in another way' : 'Bypass'}
          </button>
        </p>
      )}
      {acting !== undefined && (
        <BlockerForm api={api} blocker={blocker} how={acting} onClose={() => onAct(undefined)} />
      )}
    </li>
  );
}

interface FormProps {
  api: InitiativeApi;
  blocker: InitiativeBlocker;
  how: Acting['how'];
  onClose: () => void;
}

function BlockerForm({ api, blocker: { id, status }, how, onClose }: FormProps) {
  const path = `/blockers/${encodeURIComponent(id)}/${how}`;
  const shared = {
    api,
    late: status === 'resolved' ? 'It was resolved elsewhere meanwhile.' : undefined,
    onDone: onClose,
    onDiscard: onClose,
  };
  if (how === 'resolve') {
    return (
      <ActionForm
        {...shared}
        name={`Resolve ${id}`}
        fields={[{ label: 'How was it resolved?' }]}
        action="Resolve"
        command={([resolution = '']) => ({ path, body: { resolution } })}
      />
    );
  }
  return (
    <ActionForm
      {...shared}
      name={`Bypass ${id}`}
      fields={[
        { label: 'Workaround' },
        { label: 'Tasks to add for later, one a line', most: MOST_NAMES, isOptional: true },
      ]}
      action="Bypass"
      command={([workaround = '', names = '']) => ({ path, body: { workaround, workaround_tasks: lines(names) } })}
    />
  );
}

/** The lines of a text, without empty ones. */
function lines(text: string): string[] {
  return text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]));
}
