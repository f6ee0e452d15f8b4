import { type LastingScope, LASTING_SCOPES, parseName } from '../../domain/state-keys.ts';
import { written } from '../lib/written.ts';
import { useShown } from '../session/read-while-shown.ts';
import type { TabSession } from '../session/tab-session.ts';
import { Known } from './known.tsx';

const SCOPE_WORDS: Record<LastingScope, string> = {
  session: 'This session',
  user: 'All your sessions',
  app: 'Everybody',
};

/** What tools and programs keep for the session, by scope; live while it is shown. */
export function StatePanel({ session }: { session: TabSession }) {
  const { value, notice } = useShown(session.state);
  return (
    <div className="panel-body scopes" role="group" aria-label="State by scope" tabIndex={0}>
      <Known value={value} notice={notice}>
        {(values) => LASTING_SCOPES.map((scope) => <Scope key={scope} scope={scope} values={values} />)}
      </Known>
    </div>
  );
}

function Scope({ scope, values }: { scope: LastingScope; values: Record<string, unknown> }) {
  const own = Object.entries(values)
    .map(([name, value]) => ({ of: parseName(name), value }))
    .filter(({ of }) => of.scope === scope);
  return (
    <section aria-label={SCOPE_WORDS[scope]}>
      <p className="label">{SCOPE_WORDS[scope]}</p>
      {own.length === 0 && <p className="note">nothing</p>}
      <dl>
        {own.map(({ of, value }) => (
          <div key={of.key} className="value">
            <dt className="name">{of.key}</dt>
            <dd>{written(value)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
