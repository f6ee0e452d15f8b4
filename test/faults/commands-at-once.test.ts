// Many concurrent commands of one session.
import { beforeAll, expect, it } from 'vitest';
import { PerdureClient } from '../../client/client.ts';
import { PerdureError } from '../../domain/errors.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { commandRows } from './rows.ts';
import { expectSound } from './sound.ts';

const COMMANDS = 50;
const TRIES = 5;
const WHEN = ['during an answer', 'when idle'];
const NAMES = ['publish', 'abort', 'cancel', 'revert', 'openExisting'] as const;

let runtime: TestRuntime;
let client: PerdureClient;
beforeAll(async () => {
  runtime = await startRuntime({ script: () => [say('Once upon'), hang()] });
  const { db, temporal, bus } = runtime;
  client = new PerdureClient({ database: db, temporal, bus });
});

/**
 * Sends one command, under the same key again if it got no answer in time, as from a busy machine. Returns what the caller
 * gets: `ok`, or the code of the refusal.
 */
async function responseTo(session: TestSession, n: number, tries = TRIES): Promise<string> {
  const name = NAMES[n % NAMES.length]!;
  const options = { idempotencyKey: `c${n}` };
  try {
    if (name === 'openExisting')
      await client.commands.openExisting(session.user, session.id, { project_id: `p${session.id}`, ...options });
    else await client.commands[name](session.user, session.id, options);
    return 'ok';
  } catch (error) {
    if (!(error instanceof PerdureError)) return String(error);
    return error.code === 'Unavailable' && tries > 1 ? responseTo(session, n, tries - 1) : error.code;
  }
}

it.each(WHEN)('W2 fifty commands of one session at once, %s: each caller gets the recorded outcome', async (when) => {
  const session = await TestSession.open(runtime);
  const index = runtime.model.requests.length;
  if (when === 'during an answer') {
    await session.send('go');
    await runtime.model.request(index);
  }
  const answers = await Promise.all(Array.from({ length: COMMANDS }, (_, n) => responseTo(session, n)));
  const rows = await commandRows(runtime.db, session.id);
  const recorded = new Map(
    rows.map(({ command_id, data }) => {
      const { ok, code } = data['outcome'] as { ok: boolean; code?: string };
      return [command_id, ok ? 'ok' : code];
    }),
  );
  expect(recorded.size).toBe(COMMANDS);
  expect(answers.map((answer, n) => [`${NAMES[n % NAMES.length]}:c${n}`, answer])).toEqual(
    answers.map((_answer, n) => [`${NAMES[n % NAMES.length]}:c${n}`, recorded.get(`${NAMES[n % NAMES.length]}:c${n}`)]),
  );
  if (when === 'during an answer') expect((await session.ended(1)).state).toBe('aborted');
  await expectSound(runtime, session.id);
});
