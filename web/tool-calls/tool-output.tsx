import { memo, useState } from 'react';
import { AttachedFile } from '../composer/attached-file.tsx';
import { DiffLines } from '../diff/diff-lines.tsx';
import { Code } from '../markdown/code.tsx';
import { JsonTree } from './json-tree.tsx';
import { languageOf } from './language-of.ts';
import { type Cell, type ReadOutput, readOutput } from './read-output.ts';

interface Props {
  output: unknown;
  /** Of the file that the call is about. */
  path: string | undefined;
}

/** The output of a tool: a text, a diff, a table, an image, or a tree. A text is not read again while the answer goes on. */
export const ToolOutput = memo(function ToolOutput({ output, path }: Props) {
  return (
    <div role="group" aria-label="Output">
      <p className="label">Output</p>
      <Shown read={readOutput(output)} path={path} />
    </div>
  );
});

function Shown({ read, path }: { read: ReadOutput; path?: string | undefined }) {
  switch (read.kind) {
    case 'nothing':
      return <p className="note">nothing</p>;
    case 'text': {
      const language = path === undefined ? '' : languageOf(path);
      if (language !== '') return <Code language={language} text={read.text} />;
      return (
        <pre tabIndex={0} dir="auto">
          {read.text}
        </pre>
      );
    }
    case 'diff':
      return (
        <pre className="diff" tabIndex={0}>
          <code>
            <DiffLines lines={read.lines} />
          </code>
        </pre>
      );
    case 'file': {
      const { kind: _kind, ...file } = read;
      // An output that is not the last one may be replaced by another image.
      return <AttachedFile key={file.url} part={{ type: 'file', ...file }} />;
    }
    case 'table':
      return <Table columns={read.columns} rows={read.rows} />;
    case 'parts':
      // Parts are never reordered.
      return read.parts.map((part, index) => <Shown key={index} read={part} />);
    case 'tree':
      return <JsonTree value={read.value} />;
  }
}

const ROWS_AT_ONCE = 50;

function Table({ columns, rows }: { columns: string[]; rows: Record<string, Cell>[] }) {
  const [most, setMost] = useState(ROWS_AT_ONCE);
  const left = rows.length - most;
  return (
    <>
      <div className="table" tabIndex={0} role="group" aria-label="Table">
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, most).map((row, index) => (
              <tr key={index}>
                {columns.map((column) => (
                  <td key={column} dir="auto" data-type={typeof row[column]}>
                    {cellText(row[column])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {left > 0 && (
        <button type="button" className="quiet" onClick={() => setMost(rows.length)}>
          Show {left} more rows
        </button>
      )}
    </>
  );
}

function cellText(cell: Cell | undefined): string {
  return cell === undefined || cell === null ? '' : String(cell);
}
