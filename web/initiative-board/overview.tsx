import type { InitiativeView } from '../../wire/initiative-views.ts';
import { Done, StatusTag, Words } from '../initiative-parts/entry.tsx';
import { INITIATIVE_WORDS } from '../initiative-parts/initiative-words.ts';

/** What stands still, and why. */
const HELD = {
  paused: 'The phase of the position is paused: all of its tasks that are left are blocked.',
  escalated: 'All that is left is blocked: resolve or bypass a blocker to let the work go on.',
};

/** What an initiative is about, where it stands, and the way to the parts of its board. */
export function Overview({ data }: { data: InitiativeView }) {
  const { initiative, state, decisions, blockers, sessions, phases } = data;
  const { title, status, next_action } = initiative;
  const tasks = phases.flatMap(({ plans }) => plans.flatMap((plan) => plan.tasks));
  const done = tasks.filter((task) => task.status === 'completed').length;
  const active = blockers.filter((blocker) => blocker.status === 'active').length;
  return (
    <section className="overview" aria-label="Overview">
      <div className="row">
        <h1 dir="auto">{title}</h1>
        <StatusTag status={status} words={INITIATIVE_WORDS[status]} />
      </div>
      <Done progress={state.progress} name="Progress of the initiative" />
      {(status === 'paused' || status === 'escalated') && <p className="held">{HELD[status]}</p>}
      <dl>
        <div>
          <dt>Position</dt>
          <dd dir="auto">{status === 'completed' ? 'All phases are completed.' : <Position data={data} />}</dd>
        </div>
        {next_action !== '' && (
          <div>
            <dt>Next action</dt>
            <dd>
              <Words text={next_action} />
            </dd>
          </div>
        )}
      </dl>
      <nav aria-label="Parts of the board">
        <a href="#blockers">Blockers {active}</a>
        <a href="#tasks">
          Tasks {done}/{tasks.length}
        </a>
        <a href="#work-sessions">Work sessions {sessions.length}</a>
        <a href="#decisions">Decisions {decisions.length}</a>
        <a href="#state-file">STATE.md</a>
      </nav>
    </section>
  );
}

function Position({ data: { state, phases } }: { data: InitiativeView }) {
  const { phase, phase_name, plan, plan_name, task, wave } = state.position;
  return (
    <>
      Phase {phase} of {phases.length}: {phase_name} · Plan {plan}: {plan_name} · Wave {wave} · <strong>{task}</strong>
    </>
  );
}
