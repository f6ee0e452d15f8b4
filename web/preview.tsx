import { useState } from 'react';
import type { Shown } from './shown.ts';

/** Where a preview and a conversation fit beside each other; as in page.css. */
const IS_WIDE = '(width >= 64rem)';

/**
 * What was built, as it is now. It is a page of unknown making: its frame has no origin, so it can neither read what is
 * ours nor call the server in the user's name.
 */
export function Preview({ shown, onReload }: { shown: Shown; onReload: () => void }) {
  const [isOpen, setOpen] = useState(() => matchMedia(IS_WIDE).matches);
  return (
    <section className="preview" aria-label="Preview" data-open={isOpen}>
      <div className="bar">
        <h2>Preview</h2>
        <div className="commands">
          {isOpen && (
            <button type="button" className="quiet" onClick={onReload}>
              Reload
            </button>
          )}
          <button type="button" className="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? 'Hide preview' : 'Show preview'}
          </button>
        </div>
      </div>
      {/* A new element for each address: one that goes from page to page would fill the tab's history. */}
      {isOpen && <iframe key={shown.url} src={shown.url} sandbox="allow-scripts" title="The site that was built" />}
      {isOpen && !shown.isAtRoot && (
        <p className="note">
          Addresses that begin with a slash, such as <code>/style.css</code>, lead nowhere in this preview.
        </p>
      )}
    </section>
  );
}
