import { Store } from '../lib/store.ts';

/** What can be shown beside the conversation. */
export const PANELS = ['preview', 'files', 'todos', 'state', 'permissions', 'board'] as const;
export type PanelName = (typeof PANELS)[number];

/** Width from which a panel stands beside the conversation; the same as in panels.css. */
const WIDE = matchMedia('(width >= 60rem)');

/** Shares of the page beside the sidebar, in percent. */
export const LEAST_SHARE = 20;
export const MOST_SHARE = 75;
export const USUAL_SHARE = 45;

const CHOSEN_KEY = 'perdure.panel';
const SHARE_KEY = 'perdure.panel-share';
const NOTHING = 'none';

interface Shown {
  /** There is room for a panel beside the conversation. */
  isWide: boolean;
  /** The panel that stands there; null: none; undefined: the user has not chosen. */
  chosen: PanelName | null | undefined;
  /** How wide it is, in percent. */
  share: number;
  /** The panel that covers the conversation where there is no room. */
  covering: PanelName | null;
}

/** Which panel is shown, which the tab remembers, and how wide, which the browser remembers for all tabs of the user. */
class PanelState {
  readonly view = new Store<Shown>({
    isWide: WIDE.matches,
    chosen: chosenBefore(),
    share: shareOf(Number(recall(() => localStorage, SHARE_KEY) ?? USUAL_SHARE)),
    covering: null,
  });

  constructor() {
    WIDE.addEventListener('change', ({ matches }) => this.view.update({ isWide: matches, covering: null }));
  }

  /** Shows a panel in place of the one that is shown; null: none. */
  show(panel: PanelName | null): void {
    if (!this.view.get().isWide) return this.view.update({ covering: panel });
    keep(() => sessionStorage, CHOSEN_KEY, panel ?? NOTHING);
    this.view.update({ chosen: panel });
  }

  resize(share: number): void {
    const kept = shareOf(share);
    keep(() => localStorage, SHARE_KEY, String(kept));
    this.view.update({ share: kept });
  }
}

function chosenBefore(): PanelName | null | undefined {
  const kept = recall(() => sessionStorage, CHOSEN_KEY);
  return kept === NOTHING ? null : PANELS.find((name) => name === kept);
}

function shareOf(share: number): number {
  return Number.isFinite(share) ? Math.min(MOST_SHARE, Math.max(LEAST_SHARE, Math.round(share))) : USUAL_SHARE;
}

/** The storage itself may be refused. */
function recall(storage: () => Storage, key: string): string | null {
  try {
    return storage().getItem(key);
  } catch {
    return null;
  }
}

function keep(storage: () => Storage, key: string, value: string): void {
  try {
    storage().setItem(key, value);
  } catch {
    // No storage: it lasts as long as the page does.
  }
}

export const panelState = new PanelState();
