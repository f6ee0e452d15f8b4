import { lazy, useContext } from 'react';
import { WithFallback } from '../lib/with-fallback.tsx';
import { Growing } from '../markdown/growing.ts';

const FileDiff = lazy(() => import('./file-diff.tsx').then(({ FileDiff: loaded }) => ({ default: loaded })));

/** What changes in a text, as a diff once the new text is complete. */
export function Changes(props: { title: string; before: string; after: string; note?: string }) {
  const { title, before, after, note } = props;
  const isGrowing = useContext(Growing);
  const plain = <pre tabIndex={0}>{after}</pre>;
  return (
    <section aria-label={title}>
      <p className="label">{title}</p>
      {note !== undefined && <p className="note">{note}</p>}
      {isGrowing ? (
        plain
      ) : (
        <WithFallback fallback={plain}>
          <FileDiff before={before} after={after} />
        </WithFallback>
      )}
    </section>
  );
}
