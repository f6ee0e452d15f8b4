import type { ReactNode } from 'react';

interface Given {
  /** What the table shows, for screen readers. */
  label: string;
  heads: readonly string[];
  className?: string;
  /** Its rows. */
  children: ReactNode;
}

/** A table that scrolls sideways where the window is narrower. */
export function Table({ label, heads, className, children }: Given) {
  return (
    <div className="wide" role="region" aria-label={label} tabIndex={0}>
      <table className={className}>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
