import path from 'node:path';
import type { Config } from './config.ts';
import type { Logger } from './log.ts';

/**
 * Logs what happens when a module is loaded again; undefined unless PERDURE_RELOAD is set.
 * @param shown in the terminal of `perdure dev`, too: of worker and host, which load the same modules, one is enough
 */
export function reloadLog({ reload }: Pick<Config, 'reload'>, log: Logger, shown: boolean) {
  if (!reload) return undefined;
  return {
    loaded: (modulePath: string) => log.info({ shown }, `${path.basename(modulePath)} is loaded again`),
    failed: (error: unknown) => {
      log.info({ shown }, `${reasonOf(error)}; what was loaded before is still in use`);
    },
    waiting: (error: unknown) => {
      log.info({ shown, waiting: true }, `${reasonOf(error)}; waiting for a change of the file`);
    },
  };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
