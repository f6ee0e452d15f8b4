import { useState } from 'react';
import { ReadingNote } from '../console-parts/reading-note.tsx';
import { sessionPath, type ConsolePrompt as SystemPrompt, useConsole } from '../console-parts/use-console.ts';
import { FileDiff } from '../diff/file-diff.tsx';
import { countWords } from '../lib/amount-words.ts';

interface Given {
  id: string;
  digest: string;
  /** The turn before with a prompt. */
  before: { run: number; digest: string } | undefined;
}

/** The system prompt of a turn's steps, which is read when it is opened. */
export function PromptText(given: Given) {
  const [isOpen, setOpen] = useState(false);
  const { digest, before } = given;
  const same = before?.digest === digest ? `, the same as in turn ${before.run}` : '';
  return (
    <details className="prompt" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        System prompt <code>{digest.slice(0, 12)}</code>
        {same}
      </summary>
      {isOpen && <SectionsOf {...given} />}
    </details>
  );
}

type Sections = SystemPrompt['sections'];

const NAMES: Record<keyof Sections, string> = {
  agent: 'Agent',
  instructions: 'Instructions',
  skills: 'Skills',
  environment: 'Environment',
  tools: 'Tools',
};

function SectionsOf({ id, digest, before }: Given) {
  const isNew = before !== undefined && before.digest !== digest;
  const prompt = useConsole<SystemPrompt>(`${sessionPath(id)}/prompts/${digest}`);
  const earlier = useConsole<SystemPrompt>(isNew ? `${sessionPath(id)}/prompts/${before.digest}` : null);
  const [compares, setCompares] = useState(false);
  const old = compares ? earlier.data?.sections : undefined;
  return (
    <>
      <ReadingNote of={prompt} what="the prompt" />
      {isNew && (
        <label className="choice">
          <input type="checkbox" checked={compares} onChange={(event) => setCompares(event.target.checked)} />
          Show what has changed since turn {before.run}
        </label>
      )}
      {compares && <ReadingNote of={earlier} what="the earlier prompt" />}
      {prompt.data &&
        Object.entries(prompt.data.sections).map(([name, text]) => (
          <details key={name} open={old !== undefined && old[name as keyof Sections] !== text}>
            <summary>
              {NAMES[name as keyof Sections]}{' '}
              <span className="faint">
                {text === '' ? 'empty' : `${countWords(text.length)} characters`}
                {old !== undefined && old[name as keyof Sections] === text && ', unchanged'}
              </span>
            </summary>
            {old === undefined ? (
              <pre tabIndex={0}>{text}</pre>
            ) : (
              <FileDiff before={old[name as keyof Sections]} after={text} />
            )}
          </details>
        ))}
    </>
  );
}
