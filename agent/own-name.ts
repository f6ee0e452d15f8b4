import { registerHooks } from 'node:module';
import path from 'node:path';

/** The entry points that an agents module needs, by their public names. */
const ENTRIES: Readonly<Record<string, string>> = {
  perdure: '../agent/index',
  'perdure/domain': '../domain/index',
};

let registered = false;

/**
 * From here on `import … from 'perdure'` means this very installation, wherever the importing module lies: in a clone,
 * where nothing is packed, and beside a second copy of the package as well.
 */
export function resolveOwnName(): void {
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
