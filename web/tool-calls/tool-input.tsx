import { Changes } from '../diff/changes.tsx';
import { Code } from '../markdown/code.tsx';
import { type AskedInput, readInput } from './asked-input.ts';
import { languageOf } from './language-of.ts';
import { Value } from './value.tsx';

/** The input of a tool call: a file, its changes, a command, anything else by its fields. */
export function ToolInput({ input }: { input: unknown }) {
  const asked = readInput(input);
  if (asked.kind === 'other') return <Value label="Input" value={input} />;
  return (
    <>
      <div role="group" aria-label="Input">
        <p className="label">Input</p>
        <Deed asked={asked} />
      </div>
      {Object.keys(asked.rest).length > 0 && <Value label="Further input" value={asked.rest} />}
    </>
  );
}

function Deed({ asked }: { asked: Exclude<AskedInput, { kind: 'other' }> }) {
  switch (asked.kind) {
    case 'write':
      return (
        <>
          <p className="note">{asked.path}</p>
          <Code language={languageOf(asked.path)} text={asked.content} />
        </>
      );
    case 'edit':
      return <Changes title={`Changes in ${asked.path}`} before={asked.before} after={asked.after} />;
    case 'command':
      return <Code language="bash" text={asked.command} />;
  }
}
