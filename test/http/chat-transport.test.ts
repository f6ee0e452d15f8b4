// perdure/chat: the AI SDK's Chat against a host, as a front end uses it.
import { Chat } from '@ai-sdk/react';
import { DefaultChatTransport, type UIMessage } from 'ai';
import { build } from 'esbuild';
import { beforeAll, expect, it } from 'vitest';
import { PerdureChatTransport, problemOf } from '../../client/chat.ts';
import { newId } from '../../domain/ids.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { fail, hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';

let host: TestHost;
beforeAll(async () => {
  const runtime = await startRuntime({
    script: (request) => {
      if (lastUserText(request) === 'fail') return [fail(401)];
      return lastUserText(request) === 'hold' ? [say('So far'), hang()] : [say('Done.')];
    },
  });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces });
});

type End = Parameters<NonNullable<ConstructorParameters<typeof Chat<UIMessage>>[0]['onFinish']>>[0];

/** A chat of ada's, and how its answers have ended. */
function chatOf(id = newId('ses'), more: { agent?: string } = {}) {
  const ends: End[] = [];
  const options = { api: `${host.url}/api/chat`, headers: { 'x-perdure-user': 'ada' }, body: more };
  const transport = new PerdureChatTransport(options);
  const alias = id.replace('ses_', 'tab-');
  const chat = new Chat({ id: alias, transport, onFinish: (end) => void ends.push(end) });
  return { chat, ends, alias, transport };
}

const text = ({ messages }: Chat<UIMessage>) => JSON.stringify(messages.at(-1)?.parts ?? []);

it('R4 H2 after an abort over HTTP `isAbort` is true, for the sender and who has resumed, with all that was streamed', async () => {
  const { chat, ends, alias } = chatOf();
  const sent = chat.sendMessage({ text: 'hold' });
  await eventually(() => expect(text(chat)).toContain('So far'));
  const other = chatOf(alias);
  const resumed = other.chat.resumeStream();
  await eventually(() => expect(text(other.chat)).toContain('So far'));
  expect((await host.as('ada').post(`/api/sessions/${alias}/abort`, {})).body).toMatchObject({ aborted: true });
  await Promise.all([sent, resumed]);
  for (const each of [{ chat, ends }, other]) {
    expect(each.ends).toMatchObject([{ isAbort: true, isError: false }]);
    expect([each.chat.status, text(each.chat)]).toEqual(['ready', expect.stringContaining('So far')]);
  }
  await chat.sendMessage({ text: 'go on' });
  expect(ends.at(-1)).toMatchObject({ isAbort: false, isError: false });
  expect(text(chat)).toContain('Done.');
});

it('R2 `stop` of the page is an abort for it, too', async () => {
  const { chat, ends, alias } = chatOf();
  const sent = chat.sendMessage({ text: 'hold' });
  await eventually(() => expect(text(chat)).toContain('So far'));
  await chat.stop();
  await sent;
  expect(ends).toMatchObject([{ isAbort: true }]);
  expect((await host.as('ada').get(`/api/sessions/${alias}/status`)).body).toMatchObject({ state: 'busy' });
  await host.as('ada').post(`/api/sessions/${alias}/abort`, {});
});

it('H2 problemOf reads what the API has refused, with its fields', async () => {
  const { chat } = chatOf(undefined, { agent: 'nobody' });
  await chat.sendMessage({ text: 'hello' });
  expect(problemOf(chat.error)).toMatchObject({
    type: 'urn:perdure:error:AgentNotConfigured',
    status: 422,
    code: 'AgentNotConfigured',
    detail: expect.stringContaining('nobody') as string,
  });
  const invalid = chatOf().chat;
  await invalid.sendMessage({ parts: [{ type: 'file', mediaType: 'image/png', url: 'http://x/' }] });
  const problem = problemOf(invalid.error);
  expect(problem?.errors).toMatchObject([{ field: 'messages[0].parts[0].url' }]);
  expect(problemOf(new Error(JSON.stringify(problem)))).toEqual(problem);
});

it('H2 problemOf is undefined for errors of a turn, of the network and of others', async () => {
  const { chat } = chatOf();
  await chat.sendMessage({ text: 'fail' });
  expect([chat.error?.message, problemOf(chat.error)]).toEqual([expect.stringContaining('API key'), undefined]);
  const api = 'http://127.0.0.1:1/api/chat';
  const away = new Chat({ transport: new DefaultChatTransport({ api }) });
  await away.sendMessage({ text: 'hello' });
  expect(away.error).toBeInstanceOf(Error);
  for (const error of [away.error, new Error('<html>'), new Error('{"code":"E"}'), 'text', undefined]) {
    expect(problemOf(error)).toBeUndefined();
  }
});

it('H5 perdure/chat can be bundled for browsers, with nothing of a server', async () => {
  const { metafile } = await build({
    ...{ entryPoints: ['client/chat.ts'], bundle: true, platform: 'browser', format: 'esm' },
    ...{ write: false, metafile: true },
  });
  const own = Object.keys(metafile.inputs).filter((file) => !file.includes('node_modules/'));
  expect(own.filter((file) => file !== 'client/chat.ts' && !file.startsWith('domain/'))).toEqual([]);
  expect(own).toContain('client/chat.ts');
});
