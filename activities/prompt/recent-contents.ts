/** How long bytes are kept after they were last used. */
const KEPT_MS = 60_000;

/** Bytes of attachments that steps have just sent, for the next steps: a content never changes. */
export class RecentContents {
  private readonly most: number;
  private readonly entries = new Map<string, { bytes: Buffer; timer: NodeJS.Timeout }>();
  private size = 0;

  /** @param most bytes of all of them */
  constructor(most: number) {
    this.most = most;
  }

  get(contentId: string): Buffer | undefined {
    const entry = this.entries.get(contentId);
    if (entry === undefined) return undefined;
    this.entries.delete(contentId);
    this.entries.set(contentId, entry);
    entry.timer.refresh();
    return entry.bytes;
  }

  /** Those that were used longest ago make room. */
  keep(contentId: string, bytes: Buffer): void {
    this.drop(contentId);
    if (bytes.length > this.most) return;
    const timer = setTimeout(() => this.drop(contentId), KEPT_MS).unref();
    this.entries.set(contentId, { bytes, timer });
    this.size += bytes.length;
    for (const oldest of this.entries.keys()) {
      if (this.size <= this.most) break;
      this.drop(oldest);
    }
  }

  private drop(contentId: string): void {
    const entry = this.entries.get(contentId);
    if (entry === undefined) return;
    clearTimeout(entry.timer);
    this.entries.delete(contentId);
    this.size -= entry.bytes.length;
  }
}
