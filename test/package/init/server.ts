// Copied into a project that `perdure init` has created: an integration test as its user writes it.
import { scriptedModel, startTestServer, type TestServer } from 'perdure/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import agents from './agent.ts';

let server: TestServer;
beforeAll(async () => {
  const model = scriptedModel(({ step, text }) =>
    step === 0 ? { calls: [{ tool: 'roll', input: { dice: text.length } }] } : `step ${step}`,
  );
  server = await startTestServer({ agents, model });
}, 60_000);
afterAll(() => server?.stop());

it('answers over HTTP, with real servers behind it', async () => {
  const first = await server.ask('four');
  expect(first).toMatchObject({ text: 'step 1', calls: [{ tool: 'roll', input: { dice: 4 } }] });
  expect((first.calls[0]?.output as { thrown: number[] }).thrown).toHaveLength(4);
  const second = await server.ask('sixsix', { session: first.session });
  expect(second.calls).toMatchObject([{ input: { dice: 6 } }]);
});

it('refuses a chat with an agent that does not exist', async () => {
  await expect(server.ask('four', { agent: 'nobody' })).rejects.toThrow(
    /there is no agent \\?"nobody\\?"; configured: croupier/,
  );
});
