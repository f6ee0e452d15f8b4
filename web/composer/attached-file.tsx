import type { FileUIPart } from 'ai';
import { useContext, useEffect, useState } from 'react';
import { attachmentOf } from '../../domain/attachments.ts';
import { access } from '../api/access.ts';
import { ShownSession } from '../session/shown-session.ts';
import { dataUrlOf } from '../session/uploads.ts';

/** A file of a message: an image, or its name, which downloads it. */
export function AttachedFile({ part }: { part: FileUIPart }) {
  const session = useContext(ShownSession);
  const id = attachmentOf(part);
  const name = part.filename ?? part.mediaType;
  const isImage = part.mediaType.startsWith('image/');
  const [image, setImage] = useState(isImage && id === undefined ? part.url : null);
  useEffect(() => {
    if (!isImage || id === undefined) return undefined;
    const leaving = new AbortController();
    void contentOf(session, id, leaving.signal)
      .then(async (content) => content && setImage(await dataUrlOf(content)))
      // Its name is shown, and downloads it.
      .catch(() => {});
    return () => leaving.abort();
  }, [session, id, isImage]);
  if (image !== null) return <img className="attached" src={image} alt={name} />;
  if (id === undefined) return <p className="note">Attached: {name}</p>;
  return (
    <p className="note">
      Attached:{' '}
      <button
        type="button"
        className="quiet"
        aria-label={`Download ${name}`}
        onClick={() => void save(session, id, name)}
      >
        {name}
      </button>
    </p>
  );
}

/** Read by a request of the page, because an address in an image or a link would lack the user's token. */
async function contentOf(session: string, id: string, signal?: AbortSignal): Promise<Blob | undefined> {
  const url = `/api/sessions/${encodeURIComponent(session)}/attachments/${encodeURIComponent(id)}`;
  const response = await access.fetch(url, signal ? { signal } : {});
  return response.ok ? response.blob() : undefined;
}

async function save(session: string, id: string, name: string): Promise<void> {
  const content = await contentOf(session, id);
  if (!content) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
