import { useEffect, useState } from 'react';

const COPIED_MS = 2_000;

/** Copies a text; for two seconds then `isCopied` is true. */
export function useCopy(text: () => string): { isCopied: boolean; copy: () => Promise<void> } {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), COPIED_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    await navigator.clipboard.writeText(text());
    setCopied(true);
  };
  return { isCopied, copy };
}
