import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';

let installed = false;

/** Stops the SDK from writing to the terminal; the callers report what matters. */
export function quietRuntime(): void {
  if (installed) return;
  installed = true;
  Runtime.install({
    logger: new DefaultLogger('ERROR', () => {}),
    telemetryOptions: {
      logging: { filter: makeTelemetryFilterString({ core: 'ERROR', other: 'ERROR' }), console: {} },
    },
  });
}
