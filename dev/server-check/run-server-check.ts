// `perdure check-server`: which of our settings the Temporal server has.
import { parseConfig } from '../../config/config.ts';
import { type TemporalConnectConfig, temporalConnectConfig } from '../../config/temporal.ts';
import { withTemporal } from '../../config/with-temporal.ts';
import { type Finding, SETTINGS_DOCS } from '../../worker/startup/server-settings.ts';
import { connectOnce } from '../connect-once.ts';
import { parseOptions, runCommand } from '../replay/options.ts';
import { dynamicSettings } from '../temporal.ts';
import { checkServerSettings } from './check-server-settings.ts';

const HELP = `perdure check-server: says which of the dynamic settings that Perdure needs the Temporal server has that
TEMPORAL_ADDRESS names, and what happens without those that it lacks. It exits with 1 if one is missing. To find out, it
starts workflows of type perdure-server-check in the namespace and deletes them; this takes up to 20 s.

usage: perdure check-server

It reads the environment variables that a worker reads, and needs no database.`;

const STATE_WIDTH = 9;

/** `perdure check-server`. */
export async function runServerCheck(args: readonly string[]): Promise<void> {
  if (args.includes('--help') || args.includes('-h')) return console.log(HELP);
  await runCommand(async () => {
    parseOptions({ args: [...args] });
    const config = parseConfig(process.env);
    const temporal = temporalConnectConfig(config);
    await requireNamespace(temporal);
    const findings = await checkServerSettings(temporal, config.taskQueue);
    for (const finding of findings) console.log(`${finding.state.padEnd(STATE_WIDTH)}${about(finding)}`);
    const checked = new Set(findings.map(({ key }) => key));
    const others = Object.keys(dynamicSettings()).filter((key) => !checked.has(key));
    console.log(`not checked, as only load or a failing session shows them: ${others.join(', ')}`);
    return findings.every(({ state }) => state === 'set') ? 0 : 1;
  });
}

function about(finding: Finding): string {
  const { key, without } = finding;
  if (finding.state === 'set') return key;
  return `${key}: ${finding.state === 'missing' ? `${without}; see ${SETTINGS_DOCS}` : finding.reason}`;
}

/** @throws {ConfigError | Error} naming the variable, or the server that cannot be reached */
async function requireNamespace(temporal: TemporalConnectConfig): Promise<void> {
  const { connectionOptions, namespace } = temporal;
  const connection = await connectOnce(temporal);
  try {
    await withTemporal(connectionOptions, namespace, () => connection.workflowService.describeNamespace({ namespace }));
  } finally {
    await connection.close();
  }
}
