import katex from 'katex';
import 'katex/dist/katex.min.css';
import { useLayoutEffect, useRef } from 'react';

/** What a formula may do: no links, images, classes or ids (`trust`), and no sizes beyond those of a page. */
const LIMITS = { trust: false, strict: false, maxSize: 20, maxExpand: 500, throwOnError: true } as const;

/** A typeset formula, with its MathML for screen readers. */
export function Typeset({ tex, isBlock }: { tex: string; isBlock: boolean }) {
  const place = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    // Sets its styles one by one: the page's Content-Security-Policy refuses style attributes in HTML.
    const { current } = place;
    if (!current) return;
    try {
      katex.render(tex, current, { ...LIMITS, displayMode: isBlock, errorColor: 'var(--bad)' });
    } catch {
      // What cannot be typeset is shown as it is.
      current.textContent = tex;
    }
  }, [tex, isBlock]);
  // A wide formula scrolls.
  return (
    <span
      ref={place}
      className="formula"
      dir="ltr"
      {...(isBlock && { tabIndex: 0, role: 'group', 'aria-label': 'Formula' })}
    />
  );
}
