import { PerdureError } from './errors.ts';

/** The bytes of an attachment can be neither stored nor read now. */
export class ContentUnavailableError extends PerdureError {
  /** The store would refuse another attempt, too: its settings or rights are wrong. */
  readonly isRefused: boolean;

  /** @param message for people, of our own words */
  constructor(message: string, { isRefused = false, ...options }: ErrorOptions & { isRefused?: boolean } = {}) {
    super('Unavailable', message, options);
    this.isRefused = isRefused;
  }
}
