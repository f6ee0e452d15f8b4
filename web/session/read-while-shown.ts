import { useEffect, useSyncExternalStore } from 'react';
import { isRefusal, wordsOf } from '../api/problem.ts';
import { Store } from '../lib/store.ts';

/** What a panel shows. */
interface Known<T> {
  /** As it was read last; undefined: not read yet. */
  value: T | undefined;
  /** Why it could not be read again. */
  notice: string | undefined;
}

/** Something of the session that is read only while it is shown, and again when it may have changed. */
export class ReadWhileShown<T> {
  readonly view = new Store<Known<T>>({ value: undefined, notice: undefined });
  private readonly read: () => Promise<T>;
  private readonly later: (again: () => void) => void;
  private isShown = false;
  private isBehind = false;
  private isReading = false;
  private readonly retry = () => this.changed();

  /** @param later calls back after what has failed for the moment */
  constructor(read: () => Promise<T>, later: (again: () => void) => void) {
    this.read = read;
    this.later = later;
  }

  show(isShown: boolean): void {
    this.isShown = isShown;
    this.changed();
  }

  /** It may have changed. */
  changed(): void {
    this.isBehind = true;
    if (this.isShown && !this.isReading) void this.catchUp();
  }

  private async catchUp(): Promise<void> {
    this.isReading = true;
    while (this.isShown && this.isBehind) {
      // Changes at the same moment are read once.
      await Promise.resolve();
      this.isBehind = false;
      try {
        this.view.update({ value: await this.read(), notice: undefined });
      } catch (error) {
        // What is known stays.
        this.view.update({ notice: wordsOf(error) });
        if (!isRefusal(error)) this.later(this.retry);
      }
    }
    this.isReading = false;
  }
}

/** What is known, read from now on until the component is gone. */
export function useShown<T>(reader: ReadWhileShown<T>): Known<T> {
  useEffect(() => {
    reader.show(true);
    return () => reader.show(false);
  }, [reader]);
  return useSyncExternalStore(reader.view.subscribe, reader.view.get);
}
