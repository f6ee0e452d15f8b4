import { PerdureError } from '../domain/errors.ts';

/** The error of what has its name and its route, and no more yet. */
export function notYet(what: string): PerdureError {
  return new PerdureError('NotSupported', `${what} is not there yet`);
}
