// Runs every command of the documentation unchanged against the test's own system, except those that need the whole machine:
// for them, a list names the test that runs them.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { findTemporalCli } from '../../dev/temporal-cli.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { chunksOf, startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { commandsOf, type DocumentedCommand, pages } from '../docs/shell-blocks.ts';

const root = path.join(import.meta.dirname, '..', '..');
const run = promisify(execFile);
// What a documented command writes.
afterFile(() => Promise.all(['session.jsonl', 'STATE.md'].map((file) => rm(path.join(root, file), { force: true }))));
const REHEARSAL = 'rehearsal/site-builder';
/** Event streams do not end: a command that follows one is stopped after this time. */
const FOLLOW_S = 3;
const ENDLESS = /\/(?:events|rendezvous|multiplex)\b/;
const CURL_CUT_OFF = 28;
/** The response to a command that the session's phase does not allow. */
const REFUSED = /InvalidTransition/;

/** Commands that need the whole machine, and the file that runs them. */
const SHOWN_BY: [command: RegExp, file: string][] = [
  [/^(?:\S+=\S+ )*npm start\b/, 'test/dev/start.test.ts'],
  [/^(?:\S+=\S+ )*npm run example:crew\b/, 'test/examples/crew-command.test.ts'],
  [/^npm run host\b/, 'test/http/process.test.ts'],
  [/^npm run worker\b/, 'test/dev/start.test.ts'],
  [/^(?:\S+=\S+ )*npm (?:test|run check)(?![\w-])/, '.ci/run'],
  // In a project outside of this repository.
  [/^(?:npm install|npx perdure)\b/, 'test/package/package.test.ts'],
  [/^(?:\S+=\S+ )*npm run campaign\b/, 'docs/campaign.md'],
  [/^npm run chaos\b/, 'test/campaign/chaos.test.ts'],
  [/^(?:\S+=\S+ )*npm run replay -- /, 'test/campaign/replay-commands.test.ts'],
  // Writes into the folder of recordings.
  [/^(?:\S+=\S+ )*npm run record\b/, 'test/campaign/replay-commands.test.ts'],
  // Needs a container engine.
  [/^docker\b/, 'test/operations/compose.test.ts'],
  // Needs minutes of a quiet machine: run by hand, with its figures in that page.
  [/^npm run bench\b/, 'docs/performance.md'],
];

const commands = (await pages()).flatMap(commandsOf);
const isShownElsewhere = ({ text }: DocumentedCommand) => SHOWN_BY.some(([pattern]) => pattern.test(text));

let runtime: TestRuntime;
let host: TestHost;
let env: NodeJS.ProcessEnv;
beforeAll(async () => {
  runtime = await startRuntime({ defaultModel: REHEARSAL });
  const { address, namespace, databaseUrl, workspaces } = runtime;
  const temporal = temporalClient({ connectionOptions: { address }, namespace });
  host = await startHost({ databaseUrl, temporal, models: [REHEARSAL], workspaces });
  const cli = await findTemporalCli(path.join(root, '.perdure'), process.env, () => {});
  env = {
    ...process.env,
    PATH: `${path.dirname(process.execPath)}:${process.env['PATH']}`,
    DATABASE_URL: databaseUrl,
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    PAGER: 'cat',
    TEMPORAL: cli,
  };
});

describe.each([...new Set(commands.map(({ file }) => file))])('%s', (file) => {
  it('H1 contains commands that run unchanged', async () => {
    let session = await builtSite();
    let initiative = '';
    for (const command of commands.filter((each) => each.file === file && !isShownElsewhere(each))) {
      const output = await runAsRead(command, { SESSION: session, INITIATIVE: initiative });
      // Later commands use the session or initiative that an earlier one made.
      initiative = /"initiative_id":\s*"(ini_\w+)"/.exec(output)?.[1] ?? initiative;
      session = /"session":\s*\{\s*"session_id":\s*"(ses_\w+)"/.exec(output)?.[1] ?? session;
    }
  });
});

it('H1 commands that need the whole machine are run elsewhere', () => {
  expect(SHOWN_BY.filter(([, file]) => !existsSync(path.join(root, file)))).toEqual([]);
  expect(commands.length).toBeGreaterThan(20);
});

/** A session of ada with a site that is ready to publish. */
async function builtSite(): Promise<string> {
  const ada = host.as('ada');
  const { body } = await ada.post('/api/sessions', {});
  const id = body.session.session_id as string;
  const message = { id: `${id}-1`, role: 'user', parts: [{ type: 'text', text: 'Build a site' }] };
  await chunksOf(
    await ada.fetch('/api/chat', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id, trigger: 'submit-message', messages: [message] }),
    }),
  );
  return id;
}

/** Runs a command in a shell, with the addresses of the test. @throws {Error} naming the command that fails */
async function runAsRead(
  { file, line, text }: DocumentedCommand,
  ids: Record<'SESSION' | 'INITIATIVE', string>,
): Promise<string> {
  const curl = `curl() { command curl -sS --fail-with-body --max-time ${ENDLESS.test(text) ? FOLLOW_S : 30} "$@"; }`;
  const temporal = 'temporal() { "$TEMPORAL" "$@"; }';
  const script = text.replaceAll(/(?:http:\/\/)?localhost:8787/g, host.url).replaceAll(/TEMPORAL_ADDRESS=…\s*/g, '');
  try {
    const { stdout } = await run('bash', ['-c', `${curl}\n${temporal}\n${script}`], {
      cwd: root,
      env: { ...env, ...ids },
    });
    return stdout;
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    if (code === CURL_CUT_OFF && ENDLESS.test(text) && stdout !== '') return stdout;
    if (REFUSED.test(stdout + stderr)) return stdout;
    throw new Error(`${file}:${line}: ${text}\n${stdout}${stderr}`, { cause: error });
  }
}
