import { useEffect, useState, useSyncExternalStore } from 'react';
import { Code } from './code.tsx';
import { draw, type Drawing } from './draw.ts';

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const onScheme = (changed: () => void) => {
  dark.addEventListener('change', changed);
  return () => dark.removeEventListener('change', changed);
};

/** A diagram in Mermaid's language: as an image, which can run and load nothing, with its source. Until then the source. */
export function Diagram({ source }: { source: string }) {
  const isDark = useSyncExternalStore(onScheme, () => dark.matches);
  const [drawn, setDrawn] = useState<Drawing | 'failed'>();
  useEffect(() => {
    let isShown = true;
    const show = (result: Drawing | 'failed') => isShown && setDrawn(result);
    draw(source, { isDark }).then(show, () => show('failed'));
    return () => void (isShown = false);
  }, [source, isDark]);
  const code = <Code language="mermaid" text={source} />;
  if (drawn === undefined) return code;
  if (drawn === 'failed')
    return (
      <>
        {code}
        <p className="note">This diagram cannot be drawn.</p>
      </>
    );
  const { svg, title, width, height } = drawn;
  return (
    <figure className="diagram">
      <div tabIndex={0} role="group" aria-label="Diagram">
        <img src={`data:image/svg+xml,${encodeURIComponent(svg)}`} alt={title} width={width} height={height} />
      </div>
      <details>
        <summary>Source of the diagram</summary>
        {code}
      </details>
    </figure>
  );
}
