import { applyPatch, createPatch } from 'diff';
import { useCallback, useEffect, useId, useState } from 'react';
import { ProblemError, wordsOf } from '../api/problem.ts';
import { FileDiff } from '../diff/file-diff.tsx';
import { Notice } from '../initiative-parts/entry.tsx';
import type { InitiativeApi, StateText } from '../initiative-parts/initiative-api.ts';

interface Props {
  api: InitiativeApi;
  /** Of the initiative: STATE.md is another one when it has changed. */
  version: number;
}

/** STATE.md, to be read and edited. It is read when it is opened. */
export function StateFileEditor(props: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <section id="state-file" aria-labelledby="state-file-title" tabIndex={-1} data-focus-home="#state-file">
      <h2 id="state-file-title">STATE.md</h2>
      <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>Show and edit</summary>
        {isOpen && <Editor {...props} />}
      </details>
    </section>
  );
}

interface Edited {
  /** What is being edited. */
  base: StateText;
  draft: string;
  /** The file as others have changed it meanwhile. */
  newer?: StateText | undefined;
}

const OVERLAP = 'Others have changed the same lines: keep a copy of yours, discard it, and make your change again.';

function Editor({ api, version }: Props) {
  const [edited, setEdited] = useState<Edited>();
  const [notice, setNotice] = useState<string>();
  const [isSaving, setSaving] = useState(false);
  const field = useId();
  const start = (base: StateText) => {
    setNotice(undefined);
    setEdited({ base, draft: base.text });
  };
  const read = useCallback(async () => {
    try {
      const base = await api.stateFile();
      setNotice(undefined);
      // What was changed here is kept: saving it tells that the file is another one.
      setEdited((now) => (now === undefined || now.draft === now.base.text ? { base, draft: base.text } : now));
    } catch (error) {
      setNotice(wordsOf(error));
    }
  }, [api]);
  useEffect(() => void read(), [read, version]);

  const save = async ({ base, draft }: Edited) => {
    setSaving(true);
    setNotice(undefined);
    try {
      start(await api.putStateFile({ text: draft, etag: base.etag }));
    } catch (error) {
      const isStale = error instanceof ProblemError && error.code === 'StaleState';
      const newer = isStale ? await api.stateFile().catch(() => undefined) : undefined;
      if (newer === undefined) setNotice(wordsOf(error));
      else setEdited({ base, draft, newer });
    }
    setSaving(false);
  };
  /** Puts the changes of this page on top of those of others. */
  const combine = ({ base, draft }: Edited, newer: StateText) => {
    const both = applyPatch(newer.text, createPatch('', base.text, draft));
    setNotice(both === false ? OVERLAP : undefined);
    if (both !== false) setEdited({ base: newer, draft: both });
  };

  if (edited === undefined)
    return notice === undefined ? <p className="loading">Loading…</p> : <Notice text={notice} />;
  const { base, draft, newer } = edited;
  const isChanged = draft !== base.text;
  return (
    <form
      aria-label="STATE.md"
      onSubmit={(event) => {
        event.preventDefault();
        void save(edited);
      }}
    >
      <label htmlFor={field} className="note">
        Position, next action, resume context, new decisions and the status of blockers can be changed.
      </label>
      <textarea
        id={field}
        className="state-file"
        spellCheck={false}
        value={draft}
        readOnly={isSaving}
        onChange={({ target }) => setEdited({ ...edited, draft: target.value })}
      />
      {notice !== undefined && <Notice text={notice} />}
      {newer !== undefined && (
        <div className="card" data-status="active" role="alert">
          <p>It was changed elsewhere since you began. This is what others have changed:</p>
          <FileDiff before={base.text} after={newer.text} />
          <p className="commands">
            <button type="button" className="primary" onClick={() => combine(edited, newer)}>
              Add my changes to that
            </button>
            <button type="button" onClick={() => start(newer)}>
              Discard mine
            </button>
          </p>
        </div>
      )}
      <p className="commands">
        <button type="submit" className="primary" disabled={!isChanged || isSaving || newer !== undefined}>
          Save
        </button>
        <button type="button" disabled={!isChanged || isSaving} onClick={() => start(newer ?? base)}>
          Discard changes
        </button>
      </p>
    </form>
  );
}
