import type { SeenTool } from './stream-tool.ts';

/** What a reader has been sent of a part. */
export interface SeenPart {
  index: number;
  /** UTF-16 units of the text, or of the raw input, that have been sent. */
  units: number;
  /** Nothing of it can change any more. */
  final: boolean;
  tool?: SeenTool;
  /** Of a text: its provider metadata, canonical JSON. */
  metadata?: string;
}

/** What a reader has been sent of an answer. */
export interface Seen {
  readonly started: boolean;
  /** The last chunk has been sent. */
  readonly ended: boolean;
  readonly stepOpen: boolean;
  /** Index of the latest `step-start`. */
  readonly stepIndex: number;
  /** Index of the latest `data-interrupted`: what stands before it belongs to lost attempts. */
  readonly interruptedIndex: number;
  /** The message's metadata, canonical JSON. */
  readonly metadata: string;
  readonly parts: ReadonlyMap<string, SeenPart>;
}

export const NOTHING_SEEN: Seen = {
  started: false,
  ended: false,
  stepOpen: false,
  stepIndex: -1,
  interruptedIndex: -1,
  metadata: '{}',
  parts: new Map(),
};

/** From where on a reader has to read: the parts from an index on, and of those it knows, the text behind what it has. */
export interface Cursor {
  index: number;
  parts: { id: string; units: number }[];
}

/**
 * Where to read on. While a run goes on nobody touches what lost attempts have left, so it is not read again and
 * again; when it has ended, once, with `all`: an ending may close what was left open.
 */
export function cursorOf(seen: Seen, { all = false } = {}): Cursor {
  const open: { id: string; units: number; index: number }[] = [];
  let next = 0;
  for (const [id, { index, units, final }] of seen.parts) {
    next = Math.max(next, index + 1);
    if (!final && (all || index > seen.interruptedIndex)) open.push({ id, units, index });
  }
  const parts = open.map(({ id, units }) => ({ id, units }));
  return { index: Math.min(next, ...open.map((part) => part.index)), parts };
}
