import { type ComponentProps, isValidElement, memo, type ReactNode } from 'react';
import ReactMarkdown, { type Components, type ExtraProps } from 'react-markdown';
import remarkGfm from 'remark-gfm';
import { CodeBlock } from './code-block.tsx';
import { Formula } from './formula.tsx';
import { inlineFormula } from './formulas.ts';

const REMARK = [remarkGfm];
const REHYPE = [withDirections];

/** How Markdown is rendered. Raw HTML is shown as text, and no images are fetched. */
const COMPONENTS: Components = {
  // One level below the page's own headings.
  h1: 'h3',
  h2: 'h4',
  h3: 'h5',
  h4: 'h6',
  h5: 'h6',
  a: Link,
  pre: Pre,
  code: InlineCode,
  img: ({ alt, src }) => <Link href={typeof src === 'string' ? src : undefined}>{alt === '' ? src : alt}</Link>,
  table: ({ children, dir }) => (
    <div className="table" tabIndex={0} dir={dir}>
      <table>{children}</table>
    </div>
  ),
};

/** A block of Markdown; rendered again only if its text has changed. */
export const Rendered = memo(function Rendered({ text }: { text: string }) {
  return (
    <ReactMarkdown remarkPlugins={REMARK} rehypePlugins={REHYPE} components={COMPONENTS}>
      {text}
    </ReactMarkdown>
  );
});

interface Node {
  type: string;
  tagName?: string;
  properties?: Record<string, unknown>;
  children?: Node[];
}

/** Each block has the direction of its own text. */
function withDirections() {
  return (tree: Node): void => {
    for (const { tagName, properties } of tree.children ?? [])
      if (properties !== undefined && tagName !== 'pre') properties['dir'] = 'auto';
  };
}

function Link({ href, children }: { href?: string | undefined; children?: ReactNode }) {
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

function InlineCode({ children, className }: ComponentProps<'code'> & ExtraProps) {
  const formula = className === undefined && typeof children === 'string' ? inlineFormula(children) : undefined;
  if (formula !== undefined) return <Formula tex={formula} />;
  return (
    <code className={className} dir="auto">
      {children}
    </code>
  );
}

/** A code block: its language is in the class of the code. */
function Pre({ children }: ComponentProps<'pre'> & ExtraProps) {
  const { className = '', children: text } = isValidElement<ComponentProps<'code'>>(children) ? children.props : {};
  const [, language = ''] = /language-(\S+)/.exec(className) ?? [];
  return <CodeBlock language={language} text={typeof text === 'string' ? text : ''} />;
}
