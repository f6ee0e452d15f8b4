import { memo, useMemo } from 'react';
import remend from 'remend';
import { blocksOf, isDeep } from './blocks.ts';
import { withFormulas } from './formulas.ts';
import { Growing } from './growing.ts';
import { Rendered } from './rendered.tsx';

/**
 * Renders Markdown. While the text streams, incomplete syntax (bold, code, links) is shown as if complete, and only its last
 * blocks are rendered again.
 */
export const Markdown = memo(function Markdown({ text, isStreaming }: { text: string; isStreaming: boolean }) {
  const blocks = useMemo(() => (isDeep(text) ? undefined : blocksOf(withFormulas(text))), [text]);
  if (blocks === undefined)
    return (
      <div className="text" dir="auto">
        {text}
      </div>
    );
  return (
    <div className="text prose">
      {blocks.map((block, index) => {
        const grows = isStreaming && index === blocks.length - 1;
        return (
          // Blocks are only appended, so the index is a stable key.
          <Growing key={index} value={grows}>
            <Rendered text={grows ? remend(block, { linkMode: 'text-only' }) : block} />
          </Growing>
        );
      })}
    </div>
  );
});
