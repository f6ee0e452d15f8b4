import { getPath } from 'hono/utils/url';

const SEGMENT = /^[\w.~-]+$/;

/**
 * A base path with a slash at its beginning and none at its end: `perdure/`, `/perdure/` and `//perdure` are `/perdure`. The
 * root is the empty text.
 * @throws {TypeError} for anything else that is not the path of a URL
 */
export function normalBasePath(given: unknown = ''): string {
  const segments = typeof given === 'string' ? given.split('/').filter((segment) => segment !== '') : undefined;
  const isWrong = (segment: string) => !SEGMENT.test(segment) || segment === '.' || segment === '..';
  if (segments === undefined || segments.some(isWrong)) {
    throw new TypeError(
      `basePath: expected a path such as /perdure, of letters, digits, "-", "_", "~" and ".", not ${JSON.stringify(given)}`,
    );
  }
  return segments.map((segment) => `/${segment}`).join('');
}

/**
 * The path of a request below `basePath`. Some servers have removed the base path from the URL before (Express' `app.use`),
 * others have not: both are served. Where a path could be read both ways, it is the way that leads to a route.
 * @param isServed whether a route begins with this first segment
 */
export function pathBelow(basePath: string, isServed: (segment: string) => boolean): (request: Request) => string {
  if (basePath === '') return getPath;
  const leadsToRoute = (path: string) => isServed(path.split('/', 2)[1] ?? '');
  return (request) => {
    const path = getPath(request);
    const isBelow = path === basePath || path.startsWith(`${basePath}/`);
    const rest = isBelow ? path.slice(basePath.length) || '/' : path;
    return leadsToRoute(rest) || !leadsToRoute(path) ? rest : path;
  };
}
