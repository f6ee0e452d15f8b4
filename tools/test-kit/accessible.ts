// What every page has to be for users of a keyboard, of a screen reader and of a narrow screen.
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import type { Tab } from './page.ts';

export const NARROW = { width: 360, height: 740 };
export const WIDE = { width: 1280, height: 800 };
/** Colours do not depend on the size, so two variants cover both sizes and both colour schemes. */
const VARIANTS = [
  { scheme: 'light', size: WIDE },
  { scheme: 'dark', size: NARROW },
] as const;

/** Expects no accessibility violation and no horizontal overflow in any variant. */
export async function expectAccessible(tab: Tab): Promise<void> {
  for (const { scheme, size } of VARIANTS) {
    await tab.page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await tab.page.setViewportSize(size);
    await tab.expectAccessible();
    expect(await tab.page.evaluate(() => document.documentElement.scrollWidth)).toBe(size.width);
  }
  await tab.page.setViewportSize(WIDE);
}

const MOST_STEPS = 40;

/** Presses a key until the target has the focus, and expects that the focus is visible at each step. */
export async function press(page: Page, key: 'Tab' | 'Shift+Tab', target: Locator): Promise<void> {
  for (let step = 0; step < MOST_STEPS; step++) {
    await page.keyboard.press(key);
    const seen = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === null || element === document.body || element instanceof HTMLIFrameElement) return true;
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      const { top, bottom } = element.getBoundingClientRect();
      return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && bottom > 0 && top < innerHeight;
    });
    expect(seen, 'the focus is visible').toBe(true);
    if (await isFocused(target)) return;
  }
  throw new Error(`${key} does not reach ${String(target)}`);
}

export function isFocused(locator: Locator): Promise<boolean> {
  return locator.evaluate((element) => element === document.activeElement);
}
