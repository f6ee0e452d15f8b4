import type { FileUIPart } from 'ai';
import type { Attached } from '../api/api.ts';
import { wordsOf } from '../api/problem.ts';
import { Store } from '../lib/store.ts';

/** A file that the user has added to the message. */
export interface Upload {
  key: number;
  file: File;
  /** A data: URL; null: not an image, or not read yet. */
  thumbnail: string | null;
  state: 'sending' | 'ready' | 'failed';
  /** From 0 to 1. */
  progress: number;
  /** Why it failed. */
  reason: string | null;
  /** For the message. */
  part: FileUIPart | null;
}

type Send = (file: File, on: { progress: (part: number) => void; signal: AbortSignal }) => Promise<Attached>;

/** The files of the next message. Each is uploaded at once, so that sending the message does not wait for it. */
export class Uploads {
  readonly view = new Store<{ items: readonly Upload[] }>({ items: [] });
  private readonly send: Send;
  private readonly running = new Map<number, AbortController>();
  private last = 0;

  constructor(send: Send) {
    this.send = send;
  }

  add(files: Iterable<File>): void {
    for (const file of files) {
      this.last += 1;
      const item: Upload = {
        ...{ key: this.last, file, thumbnail: null, state: 'sending' as const },
        ...{ progress: 0, reason: null, part: null },
      };
      this.view.update({ items: [...this.items, item] });
      if (file.type.startsWith('image/')) void this.showThumbnail(item);
      void this.upload(item);
    }
  }

  /** The files of a message that was taken back are those of the next message again. Returns their keys. */
  putBack(parts: readonly FileUIPart[]): number[] {
    return parts.map((part) => {
      this.last += 1;
      const file = new File([], part.filename ?? part.mediaType, { type: part.mediaType });
      const item: Upload = { key: this.last, file, thumbnail: null, state: 'ready', progress: 1, reason: null, part };
      this.view.update({ items: [...this.items, item] });
      return item.key;
    });
  }

  remove(key: number): void {
    this.running.get(key)?.abort();
    this.view.update({ items: this.items.filter((item) => item.key !== key) });
  }

  tryAgain(key: number): void {
    const item = this.items.find((each) => each.key === key);
    if (item) void this.upload(item);
  }

  /** The parts of the uploaded files, which are then no longer those of the next message. */
  take(): FileUIPart[] {
    const parts = this.items.flatMap(({ part }) => part ?? []);
    this.view.update({ items: this.items.filter(({ part }) => part === null) });
    return parts;
  }

  private get items(): readonly Upload[] {
    return this.view.get().items;
  }

  private async upload({ key, file }: Upload): Promise<void> {
    const stopping = new AbortController();
    this.running.set(key, stopping);
    this.change(key, { state: 'sending', progress: 0, reason: null });
    try {
      const progress = (part: number) => this.change(key, { progress: part });
      const { url, media_type: mediaType } = await this.send(file, { progress, signal: stopping.signal });
      this.change(key, { state: 'ready', part: { type: 'file', mediaType, url, filename: file.name } });
    } catch (error) {
      this.change(key, { state: 'failed', reason: wordsOf(error) });
    } finally {
      this.running.delete(key);
    }
  }

  private async showThumbnail({ key, file }: Upload): Promise<void> {
    this.change(key, { thumbnail: await dataUrlOf(file) });
  }

  /** Does nothing for a file that was removed. */
  private change(key: number, change: Partial<Upload>): void {
    this.view.update({ items: this.items.map((item) => (item.key === key ? { ...item, ...change } : item)) });
  }
}

/** The content as a data: URL, the only kind that the page's policy lets an image have besides addresses of the server. */
export function dataUrlOf(content: Blob): Promise<string | null> {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.addEventListener('loadend', () => resolve(reader.result as string | null));
    reader.readAsDataURL(content);
  });
}
