/** In place of a list that is being loaded. */
export function Skeleton() {
  return (
    <div className="skeleton" data-skeleton>
      <p className="unseen">Loading…</p>
      {['a', 'b', 'c', 'd'].map((key) => (
        <span key={key} aria-hidden="true" />
      ))}
    </div>
  );
}

/** In place of a list that could not be loaded. */
export function Failed({ words, onRetry }: { words: string; onRetry: () => void }) {
  return (
    <div className="failed">
      <p role="alert">{words}</p>
      <button type="button" onClick={onRetry}>
        Try again
      </button>
    </div>
  );
}
