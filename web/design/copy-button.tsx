import { useCopy } from '../lib/copy.ts';

/** Copies a text. Absent where the browser has no clipboard: it is available in secure contexts only. */
export function CopyButton({ label, text }: { label: string; text: () => string }) {
  const { isCopied, copy } = useCopy(text);
  if (!window.isSecureContext) return null;
  return (
    <button type="button" className="quiet" onClick={() => void copy()}>
      {isCopied ? 'Copied' : label}
    </button>
  );
}
