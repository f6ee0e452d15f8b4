import { lazy, useContext } from 'react';
import { WithFallback } from '../lib/with-fallback.tsx';
import { Code } from './code.tsx';
import { Formula } from './formula.tsx';
import { FORMULA } from './formulas.ts';
import { Growing } from './growing.ts';

const Diagram = lazy(() => import('./diagram.tsx').then((loaded) => ({ default: loaded.Diagram })));

/** A code block of an answer: code, a formula, or a diagram in Mermaid's language. */
export function CodeBlock({ language, text }: { language: string; text: string }) {
  const isGrowing = useContext(Growing);
  if (language === FORMULA) return <Formula tex={text} isBlock />;
  const code = <Code language={language} text={text} />;
  if (language !== 'mermaid' || isGrowing) return code;
  return (
    <WithFallback fallback={code}>
      <Diagram source={text} />
    </WithFallback>
  );
}
