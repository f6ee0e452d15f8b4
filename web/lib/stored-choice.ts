/** A choice between two that this browser remembers for all its tabs. */
export class StoredChoice {
  private readonly key: string;

  constructor(key: string) {
    this.key = key;
  }

  /** True unless the user has chosen otherwise. */
  get isOn(): boolean {
    try {
      return localStorage.getItem(this.key) !== 'off';
    } catch {
      return true;
    }
  }

  set isOn(isOn: boolean) {
    try {
      if (isOn) localStorage.removeItem(this.key);
      else localStorage.setItem(this.key, 'off');
    } catch {
      // No storage: it lasts as long as the page does.
    }
  }
}
