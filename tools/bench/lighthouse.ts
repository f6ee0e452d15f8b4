// Lighthouse's scores of a page, in the Chromium of the tests.
import { freePort } from '../../dev/ports.ts';
import { launchChromium } from '../test-kit/chromium.ts';

/** From 0 to 100. */
export interface Scores {
  performance: number;
  accessibility: number;
}

const CATEGORIES = ['performance', 'accessibility'] as const;
const PERCENT = 100;

/** Scores of one visit with an empty cache; `phone` is Lighthouse's slow phone on a slow network. */
export async function lighthouseScores(url: string, device: 'phone' | 'desktop'): Promise<Scores> {
  // Not with the other figures, which this process serves as the host: it takes 100 MB.
  const { default: lighthouse, desktopConfig } = await import('lighthouse');
  const port = await freePort();
  const browser = await launchChromium([`--remote-debugging-port=${port}`]);
  try {
    const flags = { port, logLevel: 'silent', output: 'json' } as const;
    const answer = await lighthouse(
      url,
      { ...flags, onlyCategories: [...CATEGORIES] },
      device === 'desktop' ? desktopConfig : undefined,
    );
    const { categories, runtimeError } = answer!.lhr;
    if (runtimeError) throw new Error(`Lighthouse: ${runtimeError.message}`);
    const of = (name: (typeof CATEGORIES)[number]) => Math.round((categories[name]?.score ?? 0) * PERCENT);
    return { performance: of('performance'), accessibility: of('accessibility') };
  } finally {
    await browser.close();
  }
}
