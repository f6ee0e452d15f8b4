/** Attribute of an element: the selector that gets the focus when the focused element inside it is removed. */
const HOME = 'data-focus-home';

/**
 * A button often disappears once it has been used. Moving the focus keeps keyboard users from starting again at the top
 * of the page.
 */
export function keepFocus(page: HTMLElement): void {
  let last: Element | undefined;
  let home = '';
  let column: Element = page;
  page.addEventListener('focusin', ({ target }) => {
    // Not after a touch: focusing a field would open the on-screen keyboard.
    last = target instanceof Element && target.matches(':focus-visible') ? target : undefined;
    home = last?.closest(`[${HOME}]`)?.getAttribute(HOME) ?? '';
    column = last?.closest('.beside') ?? page;
  });
  const watcher = new MutationObserver(() => {
    if (!last || home === '' || document.activeElement !== document.body) return;
    if (!last.isConnected || last.matches(':disabled'))
      (column.isConnected ? column : page).querySelector<HTMLElement>(home)?.focus();
  });
  watcher.observe(page, { childList: true, subtree: true, attributeFilter: ['disabled'] });
}
