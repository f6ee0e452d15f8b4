import type { Initiative } from '../../wire/initiative-views.ts';
import { Entry } from '../initiative-parts/entry.tsx';

/** What the next work session finds, as the last one has left it. */
export function ResumeContext({ context }: { context: Initiative['initiative']['resume_context'] }) {
  const { open_questions, key_implementations, files_modified_this_session } = context;
  return (
    <section aria-labelledby="resume-title">
      <h2 id="resume-title">To resume</h2>
      {Object.values(context).every((texts) => texts.length === 0) && <p className="note">Nothing was left behind.</p>}
      <Entry name="Open questions">{open_questions}</Entry>
      <Entry name="Key implementations">{key_implementations}</Entry>
      <Entry name="Files modified">{files_modified_this_session}</Entry>
    </section>
  );
}
