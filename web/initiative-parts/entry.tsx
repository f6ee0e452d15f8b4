import { type ReactNode, useState } from 'react';
import { doneOf, type InitiativeProgress } from '../../domain/initiatives/progress.ts';

const FORMAT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** A moment, in the user's time zone. */
export function When({ at }: { at: string }) {
  return <time dateTime={at}>{FORMAT.format(new Date(at))}</time>;
}

/** Why something could not be done. */
export function Notice({ text }: { text: string }) {
  return (
    <p className="notice" role="alert">
      {text}
    </p>
  );
}

/** A status; `words`: what it is called, if not by its name. */
export function StatusTag({ status, words = status }: { status: string; words?: string }) {
  return (
    <span className="tag" data-status={status}>
      {words}
    </span>
  );
}

/** The bar of an initiative, with its percent. */
export function Done({ progress, name }: { progress: InitiativeProgress; name: string }) {
  const percent = doneOf(progress, 100);
  return (
    <span className="done">
      <progress aria-label={name} value={percent} max={100} />
      {percent}%
    </span>
  );
}

/** How many of some things are done, with a bar. */
export function Counted({ name, done, all }: { name: string; done: number; all: number }) {
  return (
    <span className="done">
      <progress aria-label={name} value={done} max={Math.max(all, 1)} />
      {done}/{all}
    </span>
  );
}

/** Of a longer text the beginning is shown, in characters. */
const LONG = 280;

/** A text as it was written, never as markup; of a long one the beginning, until it is asked for. */
export function Words({ text }: { text: string }) {
  const [isAll, setAll] = useState(false);
  const isLong = text.length > LONG;
  return (
    <>
      <p className="text" dir="auto">
        {isLong && !isAll ? `${beginning(text)}…` : text}
      </p>
      {isLong && (
        <button type="button" className="quiet" aria-expanded={isAll} onClick={() => setAll(!isAll)}>
          {isAll ? 'Show less' : 'Show more'}
        </button>
      )}
    </>
  );
}

/** Whole characters only. */
function beginning(text: string): string {
  return Array.from(text.slice(0, 2 * LONG))
    .slice(0, LONG)
    .join('')
    .trimEnd();
}

/** What is hidden until it is asked for. */
export function Fold({ label, children }: { label: ReactNode; children: ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary dir="auto">{label}</summary>
      {isOpen && children}
    </details>
  );
}

/** A text with its name; nothing if there is none. */
export function Entry({ name, children }: { name: string; children: string | readonly string[] | null }) {
  if (children === null || children.length === 0) return null;
  return (
    <div className="entry-of">
      <p className="label">{name}</p>
      {typeof children === 'string' ? (
        <Words text={children} />
      ) : (
        <ul>
          {children.map((text, at) => (
            <li key={at}>
              <Words text={text} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** The first ones of a list, and a button for the others. */
export function First<T>(props: { of: readonly T[]; most: number; name: string; children: (item: T) => ReactNode }) {
  const { of, most, name, children } = props;
  const [isAll, setAll] = useState(false);
  return (
    <>
      {(isAll ? of : of.slice(0, most)).map(children)}
      {!isAll && of.length > most && (
        <li>
          <button type="button" className="quiet" onClick={() => setAll(true)}>
            Show all {of.length} {name}
          </button>
        </li>
      )}
    </>
  );
}
