import type { FileItem, SessionApi } from '../api/api.ts';
import { isRefusal, wordsOf } from '../api/problem.ts';
import { Store } from '../lib/store.ts';
import { type Shown, shownAt } from './shown.ts';

interface Known {
  /** Undefined: not read yet. */
  items: readonly FileItem[] | undefined;
  /** URL below which they can be read for an hour. */
  filesUrl: string;
  /** The built site; null: none. Its URL changes whenever a file changes. */
  preview: Shown | null;
  /** Why they could not be read again. */
  notice: string | undefined;
}

/** URLs of files are valid for an hour; they are read again before that. */
const VALID_MS = 50 * 60_000;

/** The files of the session's workspace, and the site that they are. */
export class SessionFiles {
  readonly view = new Store<Known>({ items: undefined, filesUrl: '', preview: null, notice: undefined });
  private readonly api: SessionApi;
  private readonly isOpened: () => boolean;
  private readonly later: (again: () => void) => void;
  /** The file list of the shown preview, in JSON. */
  private shown = '[]';
  private readAt = 0;
  private isAsked = false;
  private isBehind = false;
  /** The preview is to be loaded again in any case. */
  private isReload = false;
  private reading: Promise<void> | undefined;
  private readonly retry = () => void this.refresh();

  /**
   * @param isOpened whether the server has the session; before that it has no files
   * @param later calls back after what has failed for the moment
   */
  constructor(api: SessionApi, isOpened: () => boolean, later: (again: () => void) => void) {
    this.api = api;
    this.isOpened = isOpened;
    this.later = later;
  }

  /** The URLs of files may not be valid any more. */
  get isStale(): boolean {
    return Date.now() - this.readAt > VALID_MS;
  }

  /** The connection is there again: reads again what was read before, or could not be. */
  async reconnected(): Promise<void> {
    if (this.isAsked) await this.refresh();
  }

  /** Reads the list, once at a time; the preview is loaded again if a file has changed, or if `again` is set. */
  async refresh({ again = false } = {}): Promise<void> {
    if (!this.isOpened()) return this.view.update({ items: [] });
    this.isAsked = true;
    this.isBehind = true;
    this.isReload ||= again;
    this.reading ??= this.readWhileBehind().finally(() => (this.reading = undefined));
    await this.reading;
  }

  private async readWhileBehind(): Promise<void> {
    while (this.isBehind) {
      this.isBehind = false;
      await this.read();
    }
  }

  private async read(): Promise<void> {
    const again = this.isReload || this.isStale;
    this.isReload = false;
    try {
      const { items, files_url: filesUrl, preview_url, preview_site_url } = await this.api.files();
      this.readAt = Date.now();
      this.view.update({ items, filesUrl, notice: undefined });
      const files = JSON.stringify(items);
      if (files === this.shown && !again) return;
      this.shown = files;
      this.view.update({ preview: preview_url === null ? null : await shownAt(preview_url, preview_site_url) });
    } catch (error) {
      // What is known stays.
      this.view.update({ notice: wordsOf(error) });
      this.isReload ||= again;
      if (!isRefusal(error)) this.later(this.retry);
    }
  }

  /** The text of a file; null: there is none any more; undefined: it cannot be read as text. */
  async text(path: string): Promise<string | null | undefined> {
    const text = await this.api.file(path);
    return text?.includes('\0') === true || text?.includes('\uFFFD') === true ? undefined : text;
  }

  /** The URL of a file, for an hour. */
  urlOf(path: string): string {
    return this.view.get().filesUrl + path.split('/').map(encodeURIComponent).join('/');
  }
}
