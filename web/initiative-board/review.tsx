import { useState } from 'react';
import { byteLength } from '../../domain/text.ts';
import type { Initiative } from '../../wire/initiative-views.ts';
import { ActionForm } from '../initiative-parts/action-form.tsx';
import type { InitiativeApi } from '../initiative-parts/initiative-api.ts';

interface Props {
  api: InitiativeApi;
  mismatches: NonNullable<Initiative['initiative']['review']>;
}

/** What a resume has found missing in the workspace. Nobody is given a task until somebody accepts that. */
export function Review({ api, mismatches }: Props) {
  /** What the form accepts: what was there to be read when it was opened. Null: it is closed. */
  const [seen, setSeen] = useState<Props['mismatches'] | null>(null);
  const close = () => setSeen(null);
  return (
    <section className="card" data-status="active" aria-labelledby="review-title">
      <h2 id="review-title">Review required</h2>
      <p>The workspace is not as it was left. Until you accept that, nobody is given a task.</p>
      <ul>
        {mismatches.map(({ kind, entry, problem }) => (
          <li key={`${kind} ${entry}`} className="text" dir="auto">
            <code>{entry}</code> – {problem}
          </li>
        ))}
      </ul>
      {seen !== null ? (
        <ActionForm
          api={api}
          name="Accept what is missing"
          fields={[{ label: 'Why is that all right?' }]}
          action="Accept"
          command={([note = '']) => ({ path: '/review', body: { note, ...(isSendable(seen) && { seen }) } })}
          onDone={close}
          onDiscard={close}
        />
      ) : (
        <p className="commands">
          <button type="button" className="primary" onClick={() => setSeen(mismatches)}>
            Accept what is missing
          </button>
        </p>
      )}
    </section>
  );
}

/** A request has at most 1 MiB, unless PERDURE_MAX_BODY says otherwise. What is longer is accepted as a whole. */
function isSendable(seen: unknown): boolean {
  return byteLength(JSON.stringify(seen)) < 1_000_000;
}
