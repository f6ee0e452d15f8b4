import { useEffect, useRef, useSyncExternalStore } from 'react';
import type { Upload, Uploads } from '../session/uploads.ts';

const ACCEPTED = 'image/png,image/jpeg,image/gif,image/webp,application/pdf,text/*,application/json,.md,.csv';

/** A button that picks files. Files may also be dropped anywhere on the page, or pasted. */
export function AttachButton({ uploads }: { uploads: Uploads }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => takeDropsAndPastes(uploads), [uploads]);
  return (
    <>
      <input
        ref={field}
        type="file"
        multiple
        hidden
        accept={ACCEPTED}
        aria-label="Files to attach"
        onChange={({ target }) => {
          uploads.add(target.files ?? []);
          // The same file again is a change, too.
          target.value = '';
        }}
      />
      <button type="button" aria-label="Attach files" onClick={() => field.current?.click()}>
        Attach
      </button>
    </>
  );
}

/** @returns a function that ends it */
function takeDropsAndPastes(uploads: Uploads): () => void {
  const ending = new AbortController();
  const { signal } = ending;
  const take = (event: Event, data: DataTransfer | null) => {
    if (!data || data.files.length === 0) return;
    event.preventDefault();
    uploads.add(data.files);
  };
  // Without this the browser opens a dropped file in place of the page.
  const allow = (event: DragEvent) => event.dataTransfer?.types.includes('Files') && event.preventDefault();
  window.addEventListener('dragover', allow, { signal });
  window.addEventListener('drop', (event) => take(event, event.dataTransfer), { signal });
  const onPaste = (event: ClipboardEvent) => {
    if (!isTextFor(event)) take(event, event.clipboardData);
  };
  window.addEventListener('paste', onPaste, { signal });
  return () => ending.abort();
}

/**
 * Whether a field takes the pasted text: what is copied from a document or a spreadsheet comes with a picture of itself. A file that
 * is copied comes with its name or path as text.
 */
function isTextFor({ target, clipboardData }: ClipboardEvent): boolean {
  if (!clipboardData || !(target instanceof Element) || !target.closest('input, textarea')) return false;
  const names = Array.from(clipboardData.files, ({ name }) => name);
  const lines = clipboardData.getData('text/plain').split(/[\r\n]+/);
  return lines.some((line) => line !== '' && !names.some((name) => line === name || line.endsWith(`/${name}`)));
}

/** The files of the next message. */
export function UploadList({ uploads }: { uploads: Uploads }) {
  const { items } = useSyncExternalStore(uploads.view.subscribe, uploads.view.get);
  if (items.length === 0) return null;
  return (
    <ul className="uploads" aria-label="Files of the message" data-focus-home=".composer textarea">
      {items.map((item) => (
        <UploadItem key={item.key} item={item} uploads={uploads} />
      ))}
    </ul>
  );
}

function UploadItem({ item, uploads }: { item: Upload; uploads: Uploads }) {
  const { key, file, thumbnail, state, progress, reason } = item;
  return (
    <li data-state={state}>
      {thumbnail !== null && <img src={thumbnail} alt="" />}
      <span className="name">{file.name}</span>
      {state === 'sending' && <progress aria-label={`Uploading ${file.name}`} value={progress} />}
      {state === 'failed' && (
        <>
          <span role="alert">{reason}</span>
          <button type="button" className="quiet" onClick={() => uploads.tryAgain(key)}>
            Try again
          </button>
        </>
      )}
      <button type="button" className="quiet" aria-label={`Remove ${file.name}`} onClick={() => uploads.remove(key)}>
        Remove
      </button>
    </li>
  );
}
