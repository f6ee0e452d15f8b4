import { isRecord } from '../lib/record.ts';
import { written } from '../lib/written.ts';
import { JsonTree } from './json-tree.tsx';

/** A value for users: texts with line breaks, objects and lists as trees. */
export function Value({ label, value }: { label: string; value: unknown }) {
  const rows = isRecord(value) ? Object.entries(value) : [['', value] as const];
  return (
    <div role="group" aria-label={label}>
      <p className="label">{label}</p>
      {value === undefined || rows.length === 0 ? (
        <p className="note">nothing</p>
      ) : (
        rows.map(([name, entry]) => (
          <div key={name} className="value">
            {name !== '' && <span className="name">{name}</span>}
            {isTree(entry) ? (
              <JsonTree value={entry} />
            ) : (
              <pre tabIndex={0} dir="auto">
                {written(entry)}
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
