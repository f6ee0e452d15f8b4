/** A drawn diagram. */
export interface Drawing {
  svg: string;
  /** What it says about itself, for screen readers. */
  title: string;
  /** In CSS pixels. */
  width: number;
  height: number;
}

/** What the frame is sent, and what it answers at the port that comes with it. */
export interface DrawRequest {
  source: string;
  isDark: boolean;
}
export type DrawAnswer = Drawing | { error: string };

/** The page `web/diagram/`. */
const FRAME = '/diagram';
/** For one diagram, and for loading the frame before the first one. */
const MOST_MS = 30_000;

interface Frame {
  element: HTMLIFrameElement;
  loaded: Promise<unknown>;
}

let frame: Frame | undefined;
/** One at a time: Mermaid's configuration is global. */
let last: Promise<unknown> = Promise.resolve();

/**
 * Draws a diagram in Mermaid's language, in a hidden frame without an origin, whose page may have inline styles, which Mermaid
 * needs. The frame is loaded with the first diagram.
 * @throws {Error} if the source is wrong or too long, or the frame cannot be loaded
 */
export function draw(source: string, { isDark }: { isDark: boolean }): Promise<Drawing> {
  const drawn = last.then(() => drawnBy((frame ??= load()), { source, isDark }));
  last = drawn.catch(() => {});
  return drawn;
}

async function drawnBy({ element, loaded }: Frame, request: DrawRequest): Promise<Drawing> {
  const { port1, port2 } = new MessageChannel();
  const answer = Promise.withResolvers<DrawAnswer>();
  port1.addEventListener('message', ({ data }) => answer.resolve(data as DrawAnswer));
  port1.start();
  // A frame without an origin can be addressed by no other name.
  void loaded.then(() => element.contentWindow?.postMessage(request, '*', [port2]));
  const timer = setTimeout(() => {
    // It was not loaded, or does not come to an end: the next diagram gets another one.
    element.remove();
    frame = undefined;
    answer.resolve({ error: 'the diagram takes too long' });
  }, MOST_MS);
  const drawn = await answer.promise;
  clearTimeout(timer);
  port1.close();
  if ('error' in drawn) throw new Error(drawn.error);
  return drawn;
}

function load(): Frame {
  const element = document.createElement('iframe');
  element.setAttribute('sandbox', 'allow-scripts');
  element.setAttribute('aria-hidden', 'true');
  element.title = 'Draws diagrams';
  element.tabIndex = -1;
  element.inert = true;
  // Without a layout texts have no width.
  element.className = 'drawing-frame';
  element.src = FRAME;
  const loaded = new Promise((resolve) => element.addEventListener('load', resolve, { once: true }));
  document.body.append(element);
  return { element, loaded };
}
