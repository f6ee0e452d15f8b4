import { structuredPatch } from 'diff';
import { memo, useMemo } from 'react';
import { DiffLines } from './diff-lines.tsx';

/** Longer comparisons would freeze the page; the new text is shown instead. */
const MOST_MS = 500;

/** The lines of a text that are added and removed, with three lines around them. */
export const FileDiff = memo(function FileDiff({ before, after }: { before: string; after: string }) {
  const patch = useMemo(
    () => structuredPatch('', '', before, after, '', '', { context: 3, timeout: MOST_MS }),
    [before, after],
  );
  if (patch === undefined) return <pre tabIndex={0}>{after}</pre>;
  if (patch.hunks.length === 0) return <p className="note">Nothing changes.</p>;
  return (
    <pre className="diff" tabIndex={0}>
      {patch.hunks.map(({ newStart, lines }, at) => (
        <code key={newStart}>
          {at > 0 && <span className="gap">{'⋯\n'}</span>}
          <DiffLines lines={lines} />
        </code>
      ))}
    </pre>
  );
});
