// `npm run lockfile`: run after changing dependencies on a machine whose registry lacks the packages of some platforms: `npm
// install` then silently omits them from package-lock.json, and `npm ci` rejects the lockfile. Adds the missing entries of
// optional packages with a platform in their name; npm never downloads those of other platforms.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** @typedef {{ version?: string, dev?: boolean, optionalDependencies?: Record<string, string>, [key: string]: unknown }} Entry */

const file = join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'package-lock.json');
const lockfile = /** @type {{ packages: Record<string, Entry> }} */ (JSON.parse(readFileSync(file, 'utf8')));
const { packages } = lockfile;

/**
 * The platform fields of a package, from its name: `binding-linux-x64-musl` → linux, x64, musl.
 * @param {string} name
 */
function platformOf(name) {
  const match =
    /(android|darwin|freebsd|linux|openharmony|win32)-(arm64|arm|x64|ia32|ppc64|riscv64|s390x)(?:-(gnu|musl))?/.exec(
      name,
    );
  if (!match) return undefined;
  const [, os, cpu, abi] = match;
  return { os: [os], cpu: [cpu], ...(abi && os === 'linux' && { libc: [abi === 'gnu' ? 'glibc' : 'musl'] }) };
}

let added = 0;
for (const entry of Object.values({ ...packages })) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const path = `node_modules/${name}`;
    const platform = platformOf(name);
    // Exact versions only, since a range would have to be resolved.
    if (packages[path] || !platform || !/^\d/.test(version)) continue;
    packages[path] = { version, ...platform, ...(entry.dev && { dev: true }), optional: true };
    added++;
  }
}
lockfile.packages = Object.fromEntries(Object.entries(packages).toSorted(([a], [b]) => a.localeCompare(b, 'en')));
if (added > 0) writeFileSync(file, `${JSON.stringify(lockfile, null, 2)}\n`);
console.log(`${added} entries added to package-lock.json`);
