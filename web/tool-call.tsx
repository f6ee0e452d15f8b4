import { type DynamicToolUIPart, getToolName, type ToolUIPart } from 'ai';

type ToolPart = ToolUIPart | DynamicToolUIPart;

const STATE_WORDS: Record<ToolPart['state'], string> = {
  'input-streaming': 'being written',
  'input-available': 'running',
  'approval-requested': 'waiting for approval',
  'approval-responded': 'running',
  'output-available': 'done',
  'output-error': 'failed',
  'output-denied': 'refused',
};
const ENDED: ReadonlySet<string> = new Set(['output-available', 'output-error', 'output-denied']);

/** Maximum length of a one-line value, in characters. */
const LINE = 60;

/** A tool call: name and state, with input and output in a collapsed section. */
export function ToolCall({ part, isLive }: { part: ToolPart; isLive: boolean }) {
  const isStopped = !isLive && !ENDED.has(part.state);
  const name = getToolName(part);
  return (
    <div className="tool" data-state={isStopped ? 'stopped' : part.state}>
      <details>
        <summary>
          <code>{name}</code> <span className="brief">{briefOf(part.input)}</span>
          <span className="state">{isStopped ? 'stopped' : STATE_WORDS[part.state]}</span>
        </summary>
        <Value label="Input" value={part.input} />
        {part.state === 'output-available' && <Value label="Output" value={part.output} />}
      </details>
      {part.state === 'output-error' && <p className="error">{part.errorText}</p>}
    </div>
  );
}

/** The first text of an input, such as a path. */
function briefOf(input: unknown): string {
  const first = Object.values(isRecord(input) ? input : {}).find((value) => typeof value === 'string');
  return typeof first === 'string' && first.length <= 80 ? first : '';
}

/** A value for users: texts with line breaks, everything else as JSON. */
function Value({ label, value }: { label: string; value: unknown }) {
  const rows = isRecord(value) ? Object.entries(value) : [['', value] as const];
  return (
    <section aria-label={label}>
      <p className="label">{label}</p>
      {value === undefined || rows.length === 0 ? (
        <p className="note">nothing</p>
      ) : (
        rows.map(([name, entry]) => (
          <div key={name} className="value">
            {name !== '' && <span className="name">{name}</span>}
            <pre tabIndex={0}>{written(entry)}</pre>
          </div>
        ))
      )}
    </section>
  );
}

/** JSON, on one line if it fits. */
function written(value: unknown): string {
  if (typeof value === 'string') return value;
  const line = JSON.stringify(value) ?? '';
  return line.length <= LINE ? line : JSON.stringify(value, null, 2);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
