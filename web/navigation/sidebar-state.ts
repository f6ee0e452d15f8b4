import { Store } from '../lib/store.ts';
import { StoredChoice } from '../lib/stored-choice.ts';

/** Width from which the sidebar stands beside the conversation; the same as in sidebar.css. */
const WIDE = matchMedia('(width >= 52rem)');
const choice = new StoredChoice('perdure.sidebar');

interface Shown {
  /** Whether it stands beside the conversation, if there is room. */
  isBeside: boolean;
  /** There is room. */
  isWide: boolean;
  /** The drawer, where there is no room. */
  isDrawerOpen: boolean;
}

/** Whether the list of sessions is shown, and where. */
class SidebarState {
  readonly view = new Store<Shown>({ isBeside: choice.isOn, isWide: WIDE.matches, isDrawerOpen: false });

  constructor() {
    WIDE.addEventListener('change', ({ matches }) => this.view.update({ isWide: matches, isDrawerOpen: false }));
  }

  get isShown(): boolean {
    const { isWide, isBeside, isDrawerOpen } = this.view.get();
    return isWide ? isBeside : isDrawerOpen;
  }

  show(isShown: boolean): void {
    if (!this.view.get().isWide) return this.view.update({ isDrawerOpen: isShown });
    choice.isOn = isShown;
    this.view.update({ isBeside: isShown });
  }

  toggle(): void {
    this.show(!this.isShown);
  }

  /** The user has chosen a session: the drawer makes room for it. */
  chosen(): void {
    this.view.update({ isDrawerOpen: false });
  }

  /** Shows it, with the focus in the field for a search. */
  search(): void {
    this.show(true);
    // The field may only be there after the next drawing.
    requestAnimationFrame(() => searchField()?.focus());
  }
}

/** The field for a search; null: the sidebar is not shown. */
export function searchField(): HTMLInputElement | null {
  return document.querySelector('.side-search input');
}

export const sidebarState = new SidebarState();
