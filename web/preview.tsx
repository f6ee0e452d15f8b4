import { useState } from 'react';
import type { Shown } from './shown.ts';

/** Width from which preview and conversation are side by side; the same as in page.css. */
const IS_WIDE = '(width >= 64rem)';

/**
 * The built site. It is untrusted: its sandboxed frame has no origin, so it can neither read our data nor call the
 * server as the user.
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
      {/* A new element for each URL: changing the URL of one frame would add entries to the tab's history. */}
      {isOpen && <iframe key={shown.url} src={shown.url} sandbox="allow-scripts" title="The site that was built" />}
      {isOpen && !shown.isAtRoot && (
        <p className="note">
          Addresses that begin with a slash, such as <code>/style.css</code>, lead nowhere in this preview.
        </p>
      )}
    </section>
  );
}
