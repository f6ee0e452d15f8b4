/** One environment variable (or file) that could not be used, and what was expected. Never holds the bad value. */
export type ConfigProblem = { name: string; expected: string };

/** The configuration is unusable; the message has one line a problem. */
export class ConfigError extends Error {
  readonly code = 'ConfigError';
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super(['Configuration is not usable:', ...problems.map((p) => `  ${p.name}: expected ${p.expected}`)].join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}
