import { useContext, useId, useState } from 'react';
import { ANSWERS, type PermissionAnswer } from '../../domain/permissions.ts';
import { isRecord } from '../lib/record.ts';
import { WithFallback } from '../lib/with-fallback.tsx';
import { Answering, ShownSession } from '../session/shown-session.ts';
import { AskedCall } from './asked-call.tsx';
import { visible } from './visible.ts';

const WORDS: Record<PermissionAnswer, string> = {
  once: 'Once',
  session: 'This session',
  always: 'Always',
  reject: 'Reject',
};

const LASTING = {
  session: '“This session” also allows later calls of',
  both: '“This session” and “Always” (all sessions of the project) also allow later calls of',
};
/** Maximum length of a reason, in characters. */
const MOST_REASON = 2_000;

interface Props {
  toolCallId: string;
  name: string;
  input: unknown;
  /** What the part's approval says about the question. */
  descriptor: unknown;
}

/** A tool call of the shown session that asks, with the answers that are offered. */
export function CallQuestion({ toolCallId, name, input, descriptor }: Props) {
  const session = useContext(ShownSession);
  const send = useContext(Answering);
  const [reason, setReason] = useState('');
  const [given, setGiven] = useState<PermissionAnswer>();
  const field = useId();
  const { pattern, offered } = read(descriptor);
  if (send === null) return null;
  const answer = async (decision: PermissionAnswer) => {
    setGiven(decision);
    const why = decision === 'reject' && reason.trim() !== '' ? { reason: reason.trim() } : {};
    if (!(await send({ session, toolCallId, decision, ...why }))) setGiven(undefined);
  };
  return (
    <section className="question" aria-label={`Permission for ${name}`} data-focus-home=".composer textarea">
      <p>
        May the agent run <code>{name}</code>?
      </p>
      <WithFallback fallback={<p className="note">This cannot be shown.</p>}>
        <AskedCall input={input} />
      </WithFallback>
      <div className="commands" role="group" aria-label="Allow">
        {offered.map(
          (each) =>
            each !== 'reject' && (
              <button
                key={each}
                type="button"
                className={each === 'once' ? 'primary' : ''}
                disabled={given !== undefined}
                onClick={() => void answer(each)}
              >
                {WORDS[each]}
              </button>
            ),
        )}
      </div>
      {offered.includes('session') && (
        <p className="note">
          {offered.includes('always') ? LASTING.both : LASTING.session} <code>{name}</code>
          {pattern !== '' && (
            <>
              {' '}
              for <code>{visible(pattern)}</code>
            </>
          )}
          .
        </p>
      )}
      <form
        className="rejection"
        onSubmit={(event) => {
          event.preventDefault();
          void answer('reject');
        }}
      >
        <label htmlFor={field}>Reason, for the agent</label>
        <input
          id={field}
          type="text"
          maxLength={MOST_REASON}
          value={reason}
          disabled={given !== undefined}
          onChange={(event) => setReason(event.target.value)}
        />
        <button type="submit" className="stop" disabled={given !== undefined}>
          {WORDS.reject}
        </button>
      </form>
    </section>
  );
}

/** What the rule was asked for, and the answers to offer; a question can always be answered once and rejected. */
function read(descriptor: unknown): { pattern: string; offered: readonly PermissionAnswer[] } {
  const { pattern, decisions } = isRecord(descriptor) ? descriptor : {};
  const offered = Array.isArray(decisions) ? ANSWERS.filter((each) => decisions.includes(each)) : [];
  return {
    pattern: typeof pattern === 'string' ? pattern : '',
    offered: offered.length > 0 ? offered : ['once', 'reject'],
  };
}
