import { PerdureError } from '../domain/errors.ts';

/** The error of a route or field that is reserved in the API but not implemented yet. */
export function notSupported(what: string): PerdureError {
  return new PerdureError('NotSupported', `${what} is not supported yet`);
}
