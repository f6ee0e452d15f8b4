/** The stream of a model call ended before the provider said that the answer is complete. */
export class EndedEarlyError extends Error {
  readonly code = 'ended_early';

  constructor() {
    super('the stream ended without a finish reason');
    this.name = 'EndedEarlyError';
  }
}
