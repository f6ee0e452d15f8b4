import { registerHooks } from 'node:module';
import path from 'node:path';

/** The entry points that an agents module imports, by their public names. */
const ENTRIES: Readonly<Record<string, string>> = {
  perdure: '../index',
  'perdure/domain': '../../domain/index',
  'perdure/testing': '../../dev/testing/index',
};

let registered = false;

/**
 * Resolves `import … from 'perdure'` to this installation for every module loaded from now on: an agents module then works
 * in a clone that was never packed, and gets the same classes as its worker if a second copy of the package is installed.
 */
export function resolvePackageImports(): void {
  if (registered) return;
  registered = true;
  const extension = path.extname(import.meta.filename);
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const entry = ENTRIES[specifier];
      if (entry === undefined) return nextResolve(specifier, context);
      return { url: new URL(`${entry}${extension}`, import.meta.url).href, shortCircuit: true };
    },
  });
}
