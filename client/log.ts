/** Receives errors that no caller sees, such as failures of background work; compatible with pino. */
export interface ClientLog {
  warn(fields: object, message: string): void;
}
