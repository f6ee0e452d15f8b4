/** An invalid environment variable or file, and what was expected. Never contains the invalid value. */
export type ConfigProblem = { name: string; expected: string };

/** The configuration is invalid; the message has one line per problem. */
export class ConfigError extends Error {
  readonly code = 'ConfigError';
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[], options?: ErrorOptions) {
    super(
      ['Configuration is not usable:', ...problems.map((p) => `  ${p.name}: expected ${p.expected}`)].join('\n'),
      options,
    );
    this.name = 'ConfigError';
    this.problems = problems;
  }
}
