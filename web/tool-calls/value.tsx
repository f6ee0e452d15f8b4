import { isRecord } from '../lib/record.ts';
import { written } from '../lib/written.ts';
import { JsonTree } from './json-tree.tsx';
import { visible, visibleJson } from './visible.ts';

interface Props {
  label: string;
  value: unknown;
  /** A decision is made about it: JSON is then text, of which nothing is collapsed or unseen. */
  isAsked?: boolean;
}

/** A value for users: texts with line breaks, objects and lists as trees. */
export function Value({ label, value, isAsked = false }: Props) {
  const rows = isRecord(value) ? Object.entries(value) : [['', value] as const];
  return (
    <div role="group" aria-label={label}>
      <p className="label">{label}</p>
      {value === undefined || rows.length === 0 ? (
        <p className="note">nothing</p>
      ) : (
        rows.map(([name, entry]) => (
          <div key={name} className="value">
            {name !== '' && <span className="name">{isAsked ? visible(name) : name}</span>}
            {isTree(entry) && !isAsked ? (
              <JsonTree value={entry} />
            ) : (
              <pre tabIndex={0} dir="auto">
                {isAsked ? asked(entry) : written(entry)}
              </pre>
            )}
          </div>
        ))
      )}
    </div>
  );
}

function asked(value: unknown): string {
  return typeof value === 'string' ? visible(value) : visibleJson(value);
}

/** True for an object or a list with something in it. */
function isTree(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}
