import { useState } from 'react';

/** Children that are shown at once: the rest on request. */
const AT_ONCE = 100;
/** Smaller ones are open from the beginning. */
const SMALL = 12;

/** A value of JSON, whose objects and lists can be opened. */
export function JsonTree({ value }: { value: object }) {
  return (
    <div className="json-tree">
      <Children value={value} isTop />
    </div>
  );
}

function Children({ value, isTop = false }: { value: object; isTop?: boolean }) {
  const [most, setMost] = useState(AT_ONCE);
  const entries = Object.entries<unknown>(value as Record<string, unknown>);
  const left = entries.length - most;
  return (
    <>
      <ul>
        {entries.slice(0, most).map(([name, entry]) => (
          <li key={name}>
            <Entry name={name} value={entry} isOpen={isTop && entries.length <= SMALL && sizeOf(entry) <= SMALL} />
          </li>
        ))}
      </ul>
      {left > 0 && (
        <button type="button" className="quiet" onClick={() => setMost(most + AT_ONCE)}>
          Show {Math.min(left, AT_ONCE)} more of {left}
        </button>
      )}
    </>
  );
}

function Entry({ name, value, isOpen }: { name: string; value: unknown; isOpen: boolean }) {
  const [open, setOpen] = useState(isOpen);
  const label = <span className="name">{name}</span>;
  if (typeof value !== 'object' || value === null || sizeOf(value) === 0)
    return (
      <>
        {label}{' '}
        <span className="leaf" data-type={value === null ? 'null' : typeof value} dir="auto">
          {typeof value === 'string' ? value : JSON.stringify(value)}
        </span>
      </>
    );
  return (
    <details open={open} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {label} <span className="note">{sizeWords(value)}</span>
      </summary>
      {open && <Children value={value} />}
    </details>
  );
}

function sizeOf(value: unknown): number {
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}

function sizeWords(value: object): string {
  const count = sizeOf(value);
  if (Array.isArray(value)) return count === 1 ? '1 item' : `${count} items`;
  return count === 1 ? '1 field' : `${count} fields`;
}
