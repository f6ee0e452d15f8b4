/** Where a site is shown. */
export interface Shown {
  url: string;
  /** It lies at the root of its own name, so that `/style.css` is its own. */
  isAtRoot: boolean;
}

/**
 * Chooses the address of a preview: the name of its own where the browser finds it. Not all look for names below
 * "localhost" on their own machine.
 */
export async function shownAt(url: string, siteUrl: string | null): Promise<Shown> {
  if (siteUrl !== null && (await isFound(siteUrl))) return { url: siteUrl, isAtRoot: true };
  return { url, isAtRoot: false };
}

async function isFound(url: string): Promise<boolean> {
  try {
    await fetch(url, { method: 'HEAD', mode: 'no-cors', credentials: 'omit' });
    return true;
  } catch {
    return false;
  }
}
