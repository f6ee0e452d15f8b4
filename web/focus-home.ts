/** On an element: a selector of where in the page the focus goes when what had it in there is gone. */
const HOME = 'data-focus-home';

/**
 * A button that has done its work is often not offered any more. Without a new place for the focus, whoever uses the
 * keyboard would begin again at the top of the page.
 */
export function keepFocus(page: HTMLElement): void {
  let last: Element | undefined;
  let home = '';
  page.addEventListener('focusin', ({ target }) => {
    // Not after a touch, where a focused field brings up a keyboard.
    last = target instanceof Element && target.matches(':focus-visible') ? target : undefined;
    home = last?.closest(`[${HOME}]`)?.getAttribute(HOME) ?? '';
  });
  const watcher = new MutationObserver(() => {
    if (!last || home === '' || document.activeElement !== document.body) return;
    if (!last.isConnected || last.matches(':disabled')) page.querySelector<HTMLElement>(home)?.focus();
  });
  watcher.observe(page, { childList: true, subtree: true, attributeFilter: ['disabled'] });
}
