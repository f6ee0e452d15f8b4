import { pathToFileURL } from 'node:url';
import { DefinitionError } from '../definition/define.ts';
import { resolvePackageImports } from './resolve-package-imports.ts';

/**
 * The default export of a module of the application; undefined if it has none.
 * @param modulePath absolute, or relative to the working directory
 * @param query appended to its URL: with another query a module is loaded again
 * @throws {DefinitionError} naming the module, if it cannot be loaded or throws while it is
 */
export async function importDefault(modulePath: string, query = ''): Promise<unknown> {
  resolvePackageImports();
  try {
    const loaded = (await import(pathToFileURL(modulePath).href + query)) as { default?: unknown };
    return loaded.default;
  } catch (error) {
    throw new DefinitionError(`${modulePath} cannot be loaded: ${reasonOf(error)}`, { cause: error });
  }
}

/** The message, with the place of a syntax error: Node writes it before the stack only. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [place = ''] = (error.stack ?? '').split('\n', 1);
  const at = /^(?:file:\/\/)?(\/.*?)(?:\?.*?)?(:\d+)$/.exec(place);
  return error instanceof SyntaxError && at ? `${error.message} (${at[1]}${at[2]})` : error.message;
}
