/** Where a client says what went wrong behind its caller's back; pino's loggers fit. */
export interface ClientLog {
  warn(fields: object, message: string): void;
}
