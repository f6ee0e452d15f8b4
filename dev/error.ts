/** Why a part of the development setup did not start. */
type DevErrorCode =
  | 'AlreadyRunning'
  | 'PortTaken'
  | 'PostgresInUse'
  | 'PostgresFailed'
  | 'ProgramFailed'
  | 'TemporalCliMissing'
  | 'TemporalFailed';

/** A server of the development setup could not be started; the message says why and what to do. */
export class DevError extends Error {
  readonly code: DevErrorCode;

  constructor(code: DevErrorCode, message: string) {
    super(message);
    this.name = code;
    this.code = code;
  }
}
