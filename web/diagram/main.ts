// Draws the diagrams of the chat page, in a frame of it that has no origin.
import mermaid from 'mermaid';
import type { DrawAnswer, Drawing, DrawRequest } from '../markdown/draw.ts';

/** Larger diagrams would hold up the browser. */
const LIMITS = { maxTextSize: 20_000, maxEdges: 300 };
/** What diagrams must not set themselves, beside what Mermaid forbids. */
const OURS = [
  ...['secure', 'securityLevel', 'startOnLoad', 'maxTextSize', 'maxEdges', 'suppressErrorRendering', 'htmlLabels'],
  // Their addresses would be asked for, and refused with an error in the console.
  ...['themeCSS', 'fontFamily', 'altFontFamily'],
];

let count = 0;

async function draw({ source, isDark }: DrawRequest): Promise<Drawing> {
  mermaid.initialize({
    ...LIMITS,
    startOnLoad: false,
    securityLevel: 'strict',
    suppressErrorRendering: true,
    // Images show no HTML in every browser.
    htmlLabels: false,
    flowchart: { htmlLabels: false },
    theme: isDark ? 'dark' : 'default',
    fontFamily: 'system-ui, sans-serif',
    secure: OURS,
  });
  count += 1;
  const { svg } = await mermaid.render(`diagram-${count}`, source);
  return imageOf(svg);
}

/** The drawing as XML, which images are, with its size. */
function imageOf(html: string): Drawing {
  const svg = new DOMParser().parseFromString(html, 'text/html').querySelector('svg');
  if (!svg) throw new Error('nothing was drawn');
  const [, , width = 0, height = 0] = (svg.getAttribute('viewBox') ?? '').split(/[\s,]+/).map(Number);
  if (!(width > 0 && height > 0)) throw new Error('the drawing is empty');
  svg.setAttribute('width', String(width));
  svg.setAttribute('height', String(height));
  const title = svg.querySelector('title')?.textContent ?? svg.getAttribute('aria-roledescription') ?? '';
  const xml = new XMLSerializer().serializeToString(svg);
  return { svg: xml, title: title === '' ? 'Diagram' : title, width: Math.ceil(width), height: Math.ceil(height) };
}

// The page sends the next one when it has the answer.
window.addEventListener('message', ({ data, ports: [port] }: MessageEvent<DrawRequest>) => {
  void draw(data)
    .catch((error: unknown): DrawAnswer => ({ error: String(error) }))
    .then((answer) => port?.postMessage(answer));
});
