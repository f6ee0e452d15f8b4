import type { MiddlewareHandler } from 'hono';
import { secureHeaders } from 'hono/secure-headers';

/**
 * TLS, if any, ends at a proxy before this host; HSTS is the proxy's decision. Chromium warns about Origin-Agent-Cluster where
 * a page and a sandboxed preview have one origin.
 */
const COMMON = { strictTransportSecurity: false, originAgentCluster: false, xFrameOptions: 'DENY' } as const;

/** API responses: browsers must not render them, frame them or share them with another origin. */
export const apiHeaders: MiddlewareHandler = secureHeaders({
  ...COMMON,
  overwrite: false,
  // Browsers refuse to open a sandboxed document with this policy.
  crossOriginOpenerPolicy: false,
  contentSecurityPolicy: { defaultSrc: ["'none'"], frameAncestors: ["'none'"], sandbox: [] },
});

/** Host names of previews on this machine; see PreviewNames. */
const LOCAL_PREVIEWS = 'http://*.preview.localhost:*';

/**
 * Our own pages: scripts, styles and requests of their own origin only; no framing.
 * @param options.local they may also frame previews on host names below "localhost"
 */
export function pageHeaders({ local = false } = {}): MiddlewareHandler {
  const previews = ["'self'", ...(local ? [LOCAL_PREVIEWS] : [])];
  return secureHeaders({
    ...COMMON,
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      workerSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'", 'data:'],
      fontSrc: ["'self'"],
      // The page checks that the browser resolves these names before it uses them.
      connectSrc: previews,
      frameSrc: previews,
      baseUri: ["'none'"],
      formAction: ["'none'"],
      frameAncestors: ["'none'"],
    },
  });
}

/**
 * The frame in which the chat page draws diagrams: without an origin, and with no more than our own scripts and inline styles.
 * Nothing can be loaded or asked for, whatever a diagram says.
 */
export const drawingHeaders: MiddlewareHandler = secureHeaders({
  ...COMMON,
  xFrameOptions: false,
  crossOriginOpenerPolicy: false,
  contentSecurityPolicy: {
    sandbox: ['allow-scripts'],
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'", "'unsafe-inline'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'self'"],
  },
});

/** The origin from which a preview's pages load files, and the pages that may frame them. */
export interface PreviewBounds {
  own: string;
  frames: string;
}

/**
 * Files written by an agent: their pages run in a sandbox without an origin, load only their own files, and only our
 * pages may frame them.
 */
export function previewHeaders({ own, frames }: PreviewBounds): MiddlewareHandler {
  return secureHeaders({
    ...COMMON,
    xFrameOptions: false,
    crossOriginOpenerPolicy: false,
    crossOriginResourcePolicy: false,
    contentSecurityPolicy: {
      sandbox: ['allow-scripts'],
      defaultSrc: ["'self'", 'data:', 'blob:', "'unsafe-inline'"],
      connectSrc: [own],
      baseUri: ["'none'"],
      formAction: ["'none'"],
      frameAncestors: [frames],
    },
  });
}
