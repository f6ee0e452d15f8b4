/** The URL of a preview. */
export interface Shown {
  url: string;
  /** The site is at the root of its host name, so absolute paths such as `/style.css` work. */
  isAtRoot: boolean;
}

/**
 * Chooses the URL of a preview: the host name of its own if the browser resolves it. Not all browsers resolve names
 * below "localhost" to their own machine.
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
