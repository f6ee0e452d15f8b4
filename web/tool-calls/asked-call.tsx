import { type ComponentProps, useContext, useEffect, useState } from 'react';
import { SessionApi } from '../api/api.ts';
import { Changes } from '../diff/changes.tsx';
import { ShownSession } from '../session/shown-session.ts';
import { type AskedInput, readInput } from './asked-input.ts';
import { Value } from './value.tsx';
import { visible } from './visible.ts';

/**
 * The input of a tool call, for the decision about it: what changes in a file, a command, anything else as JSON. Nothing of it is
 * collapsed or unseen.
 */
export function AskedCall({ input }: { input: unknown }) {
  const asked = readInput(input);
  const { rest } = asked;
  return (
    <>
      <Deed asked={asked} />
      {(asked.kind === 'other' || Object.keys(rest).length > 0) && (
        <Value label={asked.kind === 'other' ? 'Input' : 'Further input'} value={rest} isAsked />
      )}
    </>
  );
}

function Deed({ asked }: { asked: AskedInput }) {
  switch (asked.kind) {
    case 'write':
      return <WrittenFile path={asked.path} content={asked.content} />;
    case 'edit':
      return <VisibleChanges title={`Changes in ${asked.path}`} before={asked.before} after={asked.after} />;
    case 'command':
      return (
        <section aria-label="Command">
          <p className="label">Command</p>
          <pre tabIndex={0}>{visible(asked.command)}</pre>
        </section>
      );
    case 'other':
      return null;
  }
}

function VisibleChanges({ title, before, after, ...rest }: ComponentProps<typeof Changes>) {
  return <Changes {...rest} title={visible(title)} before={visible(before)} after={visible(after)} />;
}

/** The file as it is: null if there is none, undefined if that is not known. */
type Present = string | null | undefined;

/** Compares with the file in the workspace, which is read again for each question. */
function WrittenFile({ path, content }: { path: string; content: string }) {
  const session = useContext(ShownSession);
  const [present, setPresent] = useState<{ text: Present }>();
  useEffect(() => {
    let isShown = true;
    const show = (text: Present) => isShown && setPresent({ text });
    new SessionApi(session).file(path).then(show, () => show(undefined));
    return () => void (isShown = false);
  }, [session, path]);
  if (present === undefined) return <p className="note">Comparing with the file…</p>;
  const { text } = present;
  if (typeof text === 'string') return <VisibleChanges title={`Changes in ${path}`} before={text} after={content} />;
  const note = text === null ? 'There is no such file yet.' : 'The file as it is now cannot be shown.';
  return <VisibleChanges title={`Writes ${path}`} before="" after={content} note={note} />;
}
