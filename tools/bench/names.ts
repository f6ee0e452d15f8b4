// Names that the processes of the benchmark share.
export const MODEL = 'openai/bench';
export const NAMESPACE = 'default';
export const USER = 'bench';
