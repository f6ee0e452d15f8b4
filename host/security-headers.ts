import type { MiddlewareHandler } from 'hono';
import { secureHeaders } from 'hono/secure-headers';

/** TLS, where there is any, ends before this host, and whoever runs that decides about HSTS. */
const COMMON = { strictTransportSecurity: false, xFrameOptions: 'DENY' } as const;

/** Answers for programs: no browser shows them as a page, in a frame or to another origin. */
export const programHeaders: MiddlewareHandler = secureHeaders({
  ...COMMON,
  overwrite: false,
  // Browsers refuse to open a sandboxed document that has such a policy.
  crossOriginOpenerPolicy: false,
  contentSecurityPolicy: { defaultSrc: ["'none'"], frameAncestors: ["'none'"], sandbox: [] },
});

/** Host names of previews on this machine; see PreviewNames. */
const LOCAL_PREVIEWS = 'http://*.preview.localhost:*';

/**
 * Our own pages: they run their own script and style, talk to their own server, and are shown in no frame.
 * @param options.local they also frame previews that have host names of their own
 */
export function pageHeaders({ local = false } = {}): MiddlewareHandler {
  const previews = ["'self'", ...(local ? [LOCAL_PREVIEWS] : [])];
  return secureHeaders({
    ...COMMON,
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'", 'data:'],
      // The page checks that the browser resolves such names before it shows a preview there.
      connectSrc: previews,
      frameSrc: previews,
      baseUri: ["'none'"],
      formAction: ["'none'"],
      frameAncestors: ["'none'"],
    },
  });
}

/** Where a preview's pages load their files from, and which pages may frame them. */
export interface PreviewBounds {
  own: string;
  frames: string;
}

/** Files that an agent wrote: their pages run without an origin, reach their own files only, and are framed by us only. */
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
