// Commands that are sent again under their Idempotency-Key: with the same arguments a repeat, with others a refusal.
import { beforeAll, expect, it } from 'vitest';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { type ArgumentKind, COMMAND_NAMES, commandEntry, type CommandName } from '../../domain/command-table.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestCaller } from '../../tools/test-kit/host.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { pathArguments } from '../../wire/commands.ts';
import { allHistories } from '../faults/history.ts';

let runtime: TestRuntime;
let ada: TestCaller;
beforeAll(async () => {
  runtime = await startRuntime({ script: () => [say('Once upon'), hang()] });
  const { databaseUrl, address, namespace } = runtime;
  const temporal = temporalClient({ connectionOptions: { address }, namespace });
  ada = (await startHost({ databaseUrl, temporal, models: ['openai/test', 'openai/plain'] })).as('ada');
});

/** A session with messages: m1 is being answered, the others are queued. */
async function busySession(): Promise<string> {
  const { body } = await ada.post('/api/sessions', {});
  const at = `/api/sessions/${body.session.session_id}`;
  for (const id of ['m1', 'm2', 'm3']) await ada.post(`${at}/messages`, { id, text: `Message ${id}` });
  return at;
}

/** What commands change; answers go on meanwhile. */
async function shown(at: string): Promise<object> {
  const { items } = (await ada.get(`${at}/messages?hidden=true`)).body as { items: { role: string }[] };
  const sessions = (await ada.get('/api/sessions?archived=true')).body.items as { session: object }[];
  return {
    messages: items.filter(({ role }) => role === 'user'),
    log: (await ada.get(`${at}/log`)).body as object,
    sessions: sessions.map(({ session }) => session),
  };
}

const CANARY = 'yellowbird';

/** Two values of an argument. */
function valuesOf(kind: ArgumentKind): [unknown, unknown] {
  switch (kind) {
    case 'id':
      return ['one', 'two'];
    case 'message':
    case 'message?':
      return ['m2', 'm3'];
    case 'model?':
      return ['openai/test', 'openai/plain'];
    case 'count?':
      return [1, 2];
    case 'flag?':
    case 'true by default?':
      return [true, false];
    case 'reason?':
      return [`${CANARY} one`, `${CANARY} two`];
    case 'metadata?':
      return [{ note: `${CANARY} one` }, { note: `${CANARY} two` }];
    default:
      return [kind[0], kind[1]];
  }
}

async function send(at: string, name: CommandName, args: Readonly<Record<string, unknown>>, key: string) {
  const entry = commandEntry(name);
  const inPath = pathArguments(entry);
  const path = entry.path.replaceAll(/:(\w+)/g, (_all, argument: string) => String(args[argument]));
  const headers = { 'idempotency-key': key };
  if (entry.method === 'delete') {
    const response = await ada.fetch(`${at}${path}`, { method: 'DELETE', headers });
    return { status: response.status, body: (await response.json()) as object };
  }
  const body = Object.fromEntries(Object.entries(args).filter(([argument]) => !inPath.includes(argument)));
  return ada.post(`${at}${path}`, body, headers);
}

it.each(COMMAND_NAMES)(
  'H2 %s under the same key is a repeat, and with any other argument KeyReused, which does nothing',
  async (name) => {
    const at = await busySession();
    const kinds = Object.entries(commandEntry(name).arguments as Record<string, ArgumentKind>);
    const given = Object.fromEntries(kinds.map(([argument, kind]) => [argument, valuesOf(kind)[0]]));
    const first = await send(at, name, given, 'key');
    const before = await shown(at);
    for (const [argument, kind] of kinds) {
      const { [argument]: _left, ...without } = given;
      const isOptional = typeof kind === 'string' && kind.endsWith('?') && kind !== 'true by default?';
      for (const other of [{ ...given, [argument]: valuesOf(kind)[1] }, ...(isOptional ? [without] : [])]) {
        expect(await send(at, name, other, 'key')).toMatchObject({
          status: 422,
          body: { code: 'KeyReused', errors: [{ field: 'Idempotency-Key' }] },
        });
      }
    }
    const again = await send(at, name, given, 'key');
    expect([again.status, again.body]).toEqual([first.status, first.body]);
    expect(await shown(at)).toEqual(before);
  },
);

it('H2 a queued message is not cancelled under the key of another one, and is under its own', async () => {
  const at = await busySession();
  const cancel = (message_id: string, key: string) => send(at, 'cancelQueued', { message_id }, key);
  expect((await cancel('m2', 'key')).status).toBe(200);
  expect((await cancel('m3', 'key')).status).toBe(422);
  expect((await cancel('m3', 'other')).status).toBe(200);
});

it('H2 a request that is refused as malformed uses up no key, and leaves nothing', async () => {
  const at = await busySession();
  const log = async () => (await ada.get(`${at}/log`)).body as object;
  const branch = (args: object) => send(at, 'branch', { from_message_id: 'm1', ...args }, 'key');
  const refused = await branch({ metadata: { note: 1 }, model: 'openai/none' });
  expect(refused).toMatchObject({ status: 422, body: { code: 'ModelNotConfigured' } });
  expect(JSON.stringify(await log())).not.toContain('"kind":"metadata"');
  expect((await branch({ metadata: { note: 2 }, model: 'openai/plain' })).body).not.toMatchObject({
    code: 'KeyReused',
  });
});

it('H2 the key of one command is free for another command and another session', async () => {
  const [at, other] = [await busySession(), await busySession()];
  expect((await send(at, 'archive', { archived: true }, 'key')).status).toBe(200);
  expect((await send(at, 'cancelQueued', { message_id: 'm2' }, 'key')).status).toBe(200);
  expect((await send(other, 'archive', { archived: false }, 'key')).status).toBe(200);
});

it('W3 H2 what content a command brought is compared without it in Temporal', async () => {
  // Visibility lists workflows with a delay.
  const histories = await eventually(async () => {
    const found = await allHistories(runtime.temporal);
    expect(found.length).toBeGreaterThanOrEqual(COMMAND_NAMES.length);
    return found.join('\n');
  });
  expect(histories).toMatch(/"cancel:key:[\w-]{43}"/);
  expect(histories).not.toContain(CANARY);
});
