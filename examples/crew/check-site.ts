import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { readTextFile } from '../site-builder/workspace.ts';

/** What a check of a site has found. */
export interface SiteCheck {
  /** Paths of all files, sorted. */
  files: string[];
  /** Sentences about what is wrong; empty: nothing. */
  faults: string[];
}

const MOST_FILES = 500;
const REFERENCE = /\b(?:href|src)\s*=\s*(?:"([^"]*)"|'([^']*)')/gi;
/** Another site, or a place on the same page. */
const ELSEWHERE = /^(?:[a-z][a-z0-9+.-]*:|\/\/|#|$)/i;

/** Reads the site below a folder: each page needs a title, and what pages refer to has to be there. */
export async function siteCheck(root: string): Promise<SiteCheck> {
  const entries = existsSync(root) ? await readdir(root, { recursive: true, withFileTypes: true }) : [];
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)).replaceAll(path.sep, '/'))
    .toSorted()
    .slice(0, MOST_FILES);
  const known = new Set(files);
  const faults: string[] = [];
  for (const page of files.filter((file) => file.endsWith('.html'))) {
    const html = await readTextFile(root, page);
    if (!/<title>\s*[^<\s]/i.test(html)) faults.push(`${page} has no title`);
    for (const target of new Set(targetsIn(html, page))) {
      if (!known.has(target)) faults.push(`${page} refers to ${target}, which does not exist`);
    }
  }
  return { files, faults };
}

/** The files of the site that a page refers to, as paths from the site's folder. */
function targetsIn(html: string, page: string): string[] {
  return [...html.matchAll(REFERENCE)]
    .map(([, double, single]) => (double ?? single ?? '').trim())
    .filter((reference) => !ELSEWHERE.test(reference))
    .map((reference) => {
      const file = reference.replace(/[?#].*$/s, '');
      const from = file.startsWith('/') ? file.slice(1) : path.posix.join(path.posix.dirname(page), file);
      return file.endsWith('/') || from === '' ? path.posix.join(from, 'index.html') : path.posix.normalize(from);
    });
}
