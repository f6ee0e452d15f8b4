// Many commands at once on a Temporal server with default settings, which admits ten updates of a workflow at a time.
import { WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { beforeAll, expect, it } from 'vitest';
import { startTemporal } from '../../dev/temporal.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { createNamespace } from '../../tools/test-kit/namespaces.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { startSystem, type TestRuntime } from '../../tools/test-kit/system.ts';
import { updates } from '../../workflows/definitions.ts';

const ROUNDS = 8;
const AT_ONCE = 20;
const COMMANDS = [updates.abort, updates.publish, updates.close] as const;

let runtime: TestRuntime;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  const server = await startTemporal({ dir: scratchDir(), headless: true, defaultSettings: true });
  afterFile(() => server.stop());
  const namespace = await createNamespace(server.address);
  runtime = await startSystem({ databaseUrl, ...namespace });
  afterFile(async () => {
    await runtime.stop();
    await namespace.client.connection.close();
  });
});

/** What the sender of a command gets: `ok`, or the code of the failure. */
async function responseTo(session: TestSession, command: (typeof COMMANDS)[number]): Promise<string> {
  try {
    await session.command(command as typeof updates.abort);
    return 'ok';
  } catch (error) {
    const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
    return (cause instanceof ApplicationFailure && cause.type) || String(error);
  }
}

it('H2 commands that the server did not pass on to the workflow are sent again', async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const session = await TestSession.open(runtime);
    const sent = Array.from({ length: AT_ONCE }, (_, n) => COMMANDS[n % COMMANDS.length]!);
    const answers = await Promise.all(sent.map((command) => responseTo(session, command)));
    const expected = sent.map((command) => (command === updates.publish ? 'InvalidTransition' : 'ok'));
    expect(answers).toEqual(expected);
  }
});
