import type { SeenTool } from './seen-tool.ts';

/** What a reader has been sent of a part. */
export interface SeenPart {
  index: number;
  /** Number of UTF-16 units of the text or raw input that have been sent. */
  units: number;
  /** It cannot change anymore. */
  final: boolean;
  tool?: SeenTool;
  /** Provider metadata of a text part, as canonical JSON. */
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
  /** Index of the latest `data-interrupted`: parts before it belong to lost attempts. */
  readonly interruptedIndex: number;
  /** The message's metadata, as canonical JSON. */
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

/** Where the next read starts: the parts from `index` on, and for known parts the text after `units`. */
export interface Cursor {
  index: number;
  parts: { id: string; units: number }[];
}

/**
 * Where the next read starts; the same for all readers that have read the same rows, whenever they began. The parts of lost
 * attempts do not change while the run is active, so they are skipped. `all` includes them, for the read after the run has
 * ended: ending a run may close them.
 */
export function cursorOf(seen: Seen, { all = false } = {}): Cursor {
  const open: { id: string; units: number; index: number }[] = [];
  let next = 0;
  for (const [id, { index, units, final, tool }] of seen.parts) {
    next = Math.max(next, index + 1);
    if (final || (!all && index <= seen.interruptedIndex)) continue;
    // Of a call whose input is complete there is no text to read.
    open.push({ id, index, units: tool === undefined || tool.state === 'input-streaming' ? units : 0 });
  }
  const parts = open.map(({ id, units }) => ({ id, units }));
  return { index: Math.min(next, ...open.map((part) => part.index)), parts };
}
