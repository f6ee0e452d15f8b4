import { isRecord } from '../lib/record.ts';
import { written } from '../lib/written.ts';
import { JsonTree } from './json-tree.tsx';
import { visible } from './visible.ts';

interface Props {
  label: string;
  value: unknown;
  /** A decision is made about it: nothing of it is collapsed or unseen. */
  isAsked?: boolean;
}

/** A value for users: texts with line breaks, objects and lists as trees. */
export function Value({ label, value, isAsked = false }: Props) {
  const shown = isAsked ? visible : (text: string) => text;
  const rows = isRecord(value) ? Object.entries(value) : [['', value] as const];
  return (
    <div role="group" aria-label={label}>
      <p className="label">{label}</p>
      {value === undefined || rows.length === 0 ? (
        <p className="note">nothing</p>
      ) : (
        rows.map(([name, entry]) => (
          <div key={name} className="value">
            {name !== '' && <span className="name">{shown(name)}</span>}
            {isTree(entry) ? (
              <JsonTree value={entry} isAsked={isAsked} />
            ) : (
              <pre tabIndex={0} dir="auto">
                {shown(written(entry))}
              </pre>
            )}
          </div>
        ))
      )}
    </div>
  );
}

/** True for an object or a list with something in it. */
function isTree(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}
