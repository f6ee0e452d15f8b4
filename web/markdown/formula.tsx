import { lazy, useContext } from 'react';
import { WithFallback } from '../lib/with-fallback.tsx';
import { Growing } from './growing.ts';

const Typeset = lazy(() => import('./typeset.tsx').then((loaded) => ({ default: loaded.Typeset })));

/** Characters; longer ones would hold up the page. */
const MOST = 4_000;
/** So would those that define commands: with them a few characters stand for a million. */
const DEFINES = /\\(?:[egx]?def|(?:future)?let|(?:new|renew|provide)command)(?![A-Za-z])/;

/** A formula in TeX: in a line, or in lines of its own. */
export function Formula({ tex, isBlock = false }: { tex: string; isBlock?: boolean }) {
  const isGrowing = useContext(Growing);
  const source = <code>{tex}</code>;
  if ((isBlock && isGrowing) || tex.length > MOST || DEFINES.test(tex)) return source;
  return (
    <WithFallback fallback={source}>
      <Typeset tex={tex} isBlock={isBlock} />
    </WithFallback>
  );
}
