import { type ComponentProps, isValidElement, memo, type ReactNode, useRef, useState } from 'react';
import ReactMarkdown, { type Components, type ExtraProps } from 'react-markdown';
import remarkGfm from 'remark-gfm';
import remend from 'remend';

const PLUGINS = [remarkGfm];
const COPIED_MS = 2_000;

/** How Markdown is rendered. Raw HTML is shown as text, and no images are fetched. */
const COMPONENTS: Components = {
  // One level below the page's own headings.
  h1: 'h3',
  h2: 'h4',
  h3: 'h5',
  h4: 'h6',
  h5: 'h6',
  a: Link,
  pre: CodeBlock,
  img: ({ alt, src }) => <Link href={typeof src === 'string' ? src : undefined}>{alt === '' ? src : alt}</Link>,
  table: ({ children }) => (
    <div className="table" tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
};

/** Renders Markdown. While the text streams, incomplete syntax (bold, code, links) is shown as if complete. */
export const Markdown = memo(function Markdown({ text, isStreaming }: { text: string; isStreaming: boolean }) {
  return (
    <div className="text prose">
      <ReactMarkdown remarkPlugins={PLUGINS} components={COMPONENTS}>
        {isStreaming ? remend(text, { linkMode: 'text-only' }) : text}
      </ReactMarkdown>
    </div>
  );
});

function Link({ href, children }: { href?: string | undefined; children?: ReactNode }) {
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

function CodeBlock({ children }: ComponentProps<'pre'> & ExtraProps) {
  const pre = useRef<HTMLPreElement>(null);
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(pre.current?.innerText ?? '');
    setCopied(true);
    setTimeout(() => setCopied(false), COPIED_MS);
  };
  return (
    <div className="code-block">
      <div className="bar">
        <span>{languageOf(children)}</span>
        {/* The clipboard is available in secure contexts only. */}
        {window.isSecureContext && (
          <button type="button" className="quiet" onClick={() => void copy()}>
            {copied ? 'Copied' : 'Copy'}
          </button>
        )}
      </div>
      <pre ref={pre} tabIndex={0}>
        {children}
      </pre>
    </div>
  );
}

/** The language of a code block, such as "css". */
function languageOf(code: ReactNode): string {
  const name = isValidElement<{ className?: string }>(code) ? code.props.className : undefined;
  return /language-(\S+)/.exec(name ?? '')?.[1] ?? '';
}
