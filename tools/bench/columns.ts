/** Compared columns; lower is better except for `turns16` and `turns64`. */
export const COLUMNS = {
  plain: 'plain turn, ms',
  tool: 'tool turn, ms',
  turns16: 'turns/s at 16',
  turns64: 'turns/s at 64',
  firstToken: 'first token over floor, ms',
  bytes20: 'bytes a turn at 20',
  bytes200: 'bytes a turn at 200',
  death: 'worker killed while streaming: continues after, ms',
} as const;

export type Column = keyof typeof COLUMNS;
