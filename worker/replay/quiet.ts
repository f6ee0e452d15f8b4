import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';

let installed = false;

/** Stops the SDK from writing to the terminal, unless it is running already; the callers report what matters. */
export function quietRuntime(): void {
  if (installed) return;
  installed = true;
  try {
    Runtime.install({
      logger: new DefaultLogger('ERROR', () => {}),
      telemetryOptions: {
        logging: { filter: makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' }), console: {} },
      },
    });
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}
