import { PerdureError } from '../domain/errors.ts';

/** The error of a route or field that is part of the API but not built yet. */
export function notYet(what: string): PerdureError {
  return new PerdureError('NotSupported', `${what} is not built yet`);
}
