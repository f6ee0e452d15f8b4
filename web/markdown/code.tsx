import { lazy, useContext } from 'react';
import { CopyButton } from '../design/copy-button.tsx';
import { WithFallback } from '../lib/with-fallback.tsx';
import { Growing } from './growing.ts';

const Highlighted = lazy(() => import('./highlighted.tsx').then((loaded) => ({ default: loaded.Highlighted })));

/** Longer code would hold up the page: each time that it grows, and in any case. */
const MOST = { growing: 10_000, complete: 200_000 };
/** So would words without end, such as data: in some languages a declaration is looked for from each word on. */
const ENDLESS = /[\w\s*&]{1000}/;

/** Code in the colours of its language, with a button that copies it. */
export function Code({ language, text }: { language: string; text: string }) {
  const isGrowing = useContext(Growing);
  const isPlain = language === '' || text.length > (isGrowing ? MOST.growing : MOST.complete) || ENDLESS.test(text);
  return (
    <div className="code-block" dir="ltr">
      <div className="bar">
        <span>{language}</span>
        <CopyButton label="Copy" text={() => text} />
      </div>
      <pre tabIndex={0}>
        <code>
          {isPlain ? (
            text
          ) : (
            <WithFallback fallback={text}>
              <Highlighted language={language} text={text} />
            </WithFallback>
          )}
        </code>
      </pre>
    </div>
  );
}
