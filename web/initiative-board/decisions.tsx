import { memo } from 'react';
import type { InitiativeDecision } from '../../wire/initiative-views.ts';
import { Entry, First, Fold, Words } from '../initiative-parts/entry.tsx';

const MOST = 10;

/** The log of decisions, newest first. */
export const Decisions = memo(function Decisions({ decisions }: { decisions: readonly InitiativeDecision[] }) {
  return (
    <section id="decisions" aria-labelledby="decisions-title" tabIndex={-1} data-focus-home="#decisions">
      <h2 id="decisions-title">Decisions</h2>
      {decisions.length === 0 && <p className="note">No decisions yet.</p>}
      <ol className="log">
        <First of={decisions.toReversed()} most={MOST} name="decisions">
          {(decision) => <Decision key={decision.decision_id} decision={decision} />}
        </First>
      </ol>
    </section>
  );
});

const Decision = memo(function Decision({ decision: { decision, ...more } }: { decision: InitiativeDecision }) {
  const { date, kind, context, reason, alternatives_considered, reversible } = more;
  return (
    <li>
      <p className="note">
        <time dateTime={date}>{date}</time>
        {kind !== null && ` · ${kind}`}
        {reversible !== null && ` · ${reversible ? 'reversible' : 'not reversible'}`}
      </p>
      <Words text={decision} />
      <Fold label="Why">
        <Entry name="Context">{context}</Entry>
        <Entry name="Reason">{reason}</Entry>
        <Entry name="Alternatives considered">{alternatives_considered}</Entry>
      </Fold>
    </li>
  );
});
