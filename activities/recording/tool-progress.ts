import type { Json } from '../../domain/text.ts';

/** Minimum time between two writes. */
const EVERY_MS = 100;

/**
 * Writes a tool's progress reports: one write at a time, at most every 100 ms, the newest report only. Nothing is written
 * after `end` has settled.
 */
export class ToolProgress {
  private readonly write: (data: Json) => Promise<void>;
  private newest: { data: Json } | undefined;
  private timer: NodeJS.Timeout | undefined;
  private writing: Promise<void> | undefined;
  private lastStart = -Infinity;
  private over = false;

  /** @param write must not reject */
  constructor(write: (data: Json) => Promise<void>) {
    this.write = write;
  }

  say(data: Json): void {
    if (this.over) return;
    this.newest = { data };
    this.plan();
  }

  async end(): Promise<void> {
    this.over = true;
    this.newest = undefined;
    clearTimeout(this.timer);
    await this.writing;
  }

  private plan(): void {
    if (this.newest === undefined || this.timer !== undefined || this.writing !== undefined) return;
    this.timer = setTimeout(() => this.start(), Math.max(0, this.lastStart + EVERY_MS - performance.now()));
  }

  private start(): void {
    const newest = this.newest;
    this.timer = undefined;
    this.newest = undefined;
    if (newest === undefined) return;
    this.lastStart = performance.now();
    this.writing = this.write(newest.data).finally(() => {
      this.writing = undefined;
      this.plan();
    });
  }
}
