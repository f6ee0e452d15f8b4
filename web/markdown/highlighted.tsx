import { toJsxRuntime } from 'hast-util-to-jsx-runtime';
import { common, createLowlight } from 'lowlight';
import { memo, type ReactElement } from 'react';
import { Fragment, jsx, jsxs } from 'react/jsx-runtime';

const lowlight = createLowlight(common);

/** Code with the words of its language in elements whose classes are those of highlight.js. */
export const Highlighted = memo(function Highlighted({ language, text }: { language: string; text: string }) {
  if (!lowlight.registered(language)) return text;
  const drawn: unknown = toJsxRuntime(lowlight.highlight(language, text), { Fragment, jsx, jsxs });
  return drawn as ReactElement;
});
