import { by, type Rows } from './evidence.ts';

/** A run that answers its message again. */
export interface AnsweredAgain {
  message: string;
  /** What hides the answers before it, and all that came after them. */
  answer: string;
  at: Date;
  /** It was taken out of the queue, so that it hides nothing. */
  isTakenBack: boolean;
}

/** The runs of one session that answer messages again: each event is that of the next run of its message. */
export function answeredAgain({ runs, events }: Pick<Rows, 'runs' | 'events'>): AnsweredAgain[] {
  const turns = by(runs, (run) => run.message_id);
  const asked = by(
    events.filter(({ kind }) => kind === 'regenerate'),
    ({ data }) => String(data['message_id']),
  );
  return [...asked].flatMap(([message, all]) => {
    const again = (turns.get(message) ?? []).slice(1);
    return all.flatMap(({ at }, n) => {
      const run = again[n];
      return run ? [{ message, answer: run.answer_id, at, isTakenBack: run.state === 'cancelled' }] : [];
    });
  });
}
