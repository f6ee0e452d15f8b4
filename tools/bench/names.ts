// Names that the processes of the benchmark share.
export const MODEL = 'openai/bench';
export const NAMESPACE = 'default';
export const USER = 'bench';
/** The agent whose tool asks. */
export const ASKING_AGENT = 'asking';
