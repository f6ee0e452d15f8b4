import { ArrowLeftIcon, ArrowTopRightOnSquareIcon, DocumentTextIcon } from '@heroicons/react/20/solid';
import { useEffect, useState, useSyncExternalStore } from 'react';
import type { FileItem } from '../api/api.ts';
import { wordsOf } from '../api/problem.ts';
import { CopyButton } from '../design/copy-button.tsx';
import { IconButton } from '../design/icon-button.tsx';
import type { SessionFiles } from '../session/session-files.ts';
import type { TabSession } from '../session/tab-session.ts';
import { FileLink } from './file-link.tsx';
import { Known } from './known.tsx';

const IMAGE = /\.(?:png|jpe?g|gif|webp|avif|svg)$/i;
/** Longer files would make the page slow. */
const MOST_BYTES = 256 * 1024;
/** The server lists at most this many. */
const MOST_FILES = 500;
const KIB = 1024;

/** The files of the workspace, and the content of one. */
export function FilesPanel({ session: { files } }: { session: TabSession }) {
  const { items, notice } = useSyncExternalStore(files.view.subscribe, files.view.get);
  const [path, setPath] = useState<string>();
  useEffect(() => void files.refresh(), [files]);
  const opened = items?.find((item) => item.path === path);
  return (
    <div
      className="panel-body files"
      role="group"
      aria-label="Files of the workspace"
      tabIndex={0}
      data-focus-home=".panel .files"
    >
      <Known value={items} notice={notice}>
        {(known) =>
          opened === undefined ? (
            <FileList items={known} onOpen={setPath} />
          ) : (
            <OpenedFile files={files} item={opened} onBack={() => setPath(undefined)} />
          )
        }
      </Known>
    </div>
  );
}

/** By folder, as the server orders them. */
function FileList({ items, onOpen }: { items: readonly FileItem[]; onOpen: (path: string) => void }) {
  if (items.length === 0)
    return <p className="note">No files yet. They are here once a tool of the agent writes some.</p>;
  const folders = Map.groupBy(items, ({ path }) => path.slice(0, path.lastIndexOf('/') + 1));
  return (
    <>
      {[...folders].map(([folder, inFolder]) => (
        <section key={folder} aria-label={folder === '' ? 'Top folder' : folder}>
          {folder !== '' && <p className="label">{folder}</p>}
          <ul>
            {inFolder.map(({ path, bytes }) => (
              <li key={path}>
                <button type="button" className="file" onClick={() => onOpen(path)}>
                  <DocumentTextIcon aria-hidden="true" />
                  <span className="name">{path.slice(folder.length)}</span>
                  <span className="note">{sizeOf(bytes)}</span>
                </button>
              </li>
            ))}
          </ul>
        </section>
      ))}
      {items.length >= MOST_FILES && <p className="note">There may be more: these are the first {MOST_FILES}.</p>}
    </>
  );
}

function OpenedFile({ files, item, onBack }: { files: SessionFiles; item: FileItem; onBack: () => void }) {
  const { path, bytes, updated_at } = item;
  const isShort = bytes <= MOST_BYTES;
  const isImage = IMAGE.test(path);
  const text = useText(files, { path, updated_at, isAsked: isShort && !isImage });
  return (
    <>
      <div className="file-bar">
        <IconButton label="Back to the files" onClick={onBack}>
          <ArrowLeftIcon aria-hidden="true" />
        </IconButton>
        <h3>{path}</h3>
        {typeof text === 'string' && <CopyButton label="Copy" text={() => text} />}
        <FileLink files={files} url={() => files.urlOf(path)} className="icon-button" aria-label="Open in a new tab">
          <ArrowTopRightOnSquareIcon aria-hidden="true" />
        </FileLink>
      </div>
      {isImage && <img key={updated_at} src={files.urlOf(path)} alt={path} />}
      {!isImage && (!isShort || text === undefined) && (
        <p className="note">{sizeOf(bytes)}. It is too long to be shown here, or no text.</p>
      )}
      {text instanceof Error && (
        <p className="note" role="alert">
          {wordsOf(text)}
        </p>
      )}
      {typeof text === 'string' && (
        <pre tabIndex={0} aria-label={path} dir="auto">
          {text}
        </pre>
      )}
    </>
  );
}

/** Null: it is being read; undefined: it is no text; or why it could not be read. */
function useText(
  files: SessionFiles,
  { path, updated_at, isAsked }: { path: string; updated_at: string; isAsked: boolean },
): string | null | undefined | Error {
  const [text, setText] = useState<string | null | undefined | Error>(null);
  useEffect(() => {
    if (!isAsked) return undefined;
    const leaving = new AbortController();
    files
      .text(path)
      .catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))))
      .then((read) => leaving.signal.aborted || setText(read))
      .catch(() => {});
    return () => leaving.abort();
  }, [files, path, updated_at, isAsked]);
  return text;
}

function sizeOf(bytes: number): string {
  if (bytes < KIB) return `${bytes} B`;
  if (bytes < KIB * KIB) return `${(bytes / KIB).toFixed(1)} KB`;
  return `${(bytes / KIB / KIB).toFixed(1)} MB`;
}
