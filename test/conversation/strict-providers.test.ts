// A strict provider, over HTTP with a worker: what it refuses once, or is not answered, does not make later turns fail.
import type { UIMessage } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { callTool, fail, finish, hang, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { PIXEL } from '../../tools/test-kit/pixel.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { readChat, strictly } from '../../tools/test-kit/strict-provider.ts';
import { ChatPage } from './chat-page.ts';
import { agent } from './kit.ts';

/** What takes files; all others refuse them. */
const SEES = 'openai/sees';

let runtime: TestRuntime;
let host: TestHost;
beforeAll(async () => {
  const agents = [agent('talker')];
  runtime = await startRuntime({ defaultModel: 'openai/test', agents, settings: { providerAttempts: 1 } });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces, agents: ['talker'], models: ['openai/test', SEES] });
});

/** The provider answers the texts of the user like this, and else with "fine". */
function answering(answers: Record<string, ModelAction[]> = {}): void {
  const script = strictly((request) => {
    const [, actions = [say('fine')]] =
      Object.entries(answers).find(([text]) => lastUserText(request).endsWith(text)) ?? [];
    return request.messages.at(-1)?.role === 'tool' ? [say('seen')] : actions;
  });
  runtime.model.script((request, index) => (request.model === 'sees' ? [say('a dot')] : script(request, index)));
}

/** The conversation that the provider was sent last. */
function sent(): { role: string; texts: string[]; files: string[] }[] {
  const { messages } = runtime.model.requests.at(-1)!.body;
  return messages.filter(({ role }) => role !== 'system').map(readChat);
}

const file = (mediaType = 'image/png', content = PIXEL): UIMessage['parts'] => [
  { type: 'text', text: 'look' },
  { type: 'file', mediaType, filename: 'a.png', url: `data:${mediaType};base64,${content}` },
];
const NOTE = '[file "a.png" of type image/png: the model provider refused it]';

/** The messages of a page, each with the types of its parts. */
const stored = async (page: ChatPage) =>
  (await page.stored()).map(({ role, parts }) => `${role}: ${parts.map(({ type }) => type).join()}`);

/** A branch at the last message of a page. */
async function branchOf(page: ChatPage): Promise<ChatPage> {
  const { body } = await page.command('branch', { from_message_id: (await page.stored()).at(-1)!.id });
  return new ChatPage(host, { id: body.session.session_id as string });
}

/** An import of the export of a page's session. */
async function importOf(page: ChatPage): Promise<ChatPage> {
  const ada = host.as('ada');
  const lines = await (await ada.fetch(`/api/sessions/${page.id}/export`)).text();
  const imported = await ada.fetch('/api/import', { method: 'POST', body: lines });
  const { session_id: id } = (await imported.json()) as { session_id: string };
  return new ChatPage(host, { id });
}

describe('a refused file', () => {
  it.each([
    ['image/png', PIXEL],
    ['image/svg+xml', 'PHN2Zy8+'],
    ['image/heic', 'AAAA'],
    ['image/png', ''],
  ])('R6 %s: the next message is answered without it', async (mediaType, content) => {
    answering();
    const page = new ChatPage(host);
    await page.send(file(mediaType, content));
    expect(page.error).toMatch(/refused the request: .* A new message works too/);
    expect(await page.send('hello')).toBe('fine');
    const note = NOTE.replace('image/png', mediaType);
    expect(sent()).toEqual([{ role: 'user', texts: [`look\n\n${note}\n\nhello`], files: [] }]);
    expect(await page.status()).toEqual({ state: 'idle' });
  });

  it('R6 T5 the turn’s answer says which, in the stream as in the rows, and only there', async () => {
    answering();
    const page = new ChatPage(host);
    await page.send('hello');
    await page.send(file());
    const [, , asked, answer] = await page.stored();
    const part = { type: 'data-refused', id: expect.any(String), data: { messages: [asked!.id] } };
    expect(page.chunks).toContainEqual(part);
    expect(answer!.parts).toEqual([part]);
    expect(asked!.parts).toEqual(file());
  });

  it('R6 a refused turn without files takes back all that were sent before', async () => {
    answering();
    const page = new ChatPage(host);
    expect(await page.send(file(), SEES)).toBe('a dot');
    expect(await page.send(file(), SEES)).toBe('a dot');
    await page.send('hello', 'openai/test');
    expect(page.error).toContain('refused the request');
    expect(await page.send('hello')).toBe('fine');
    expect(sent().map(({ texts }) => texts)).toEqual([
      [`look\n\n${NOTE}`],
      ['a dot'],
      [`look\n\n${NOTE}`],
      ['a dot'],
      ['hello\n\nhello'],
    ]);
  });

  it('R6 T5 a later step of a turn that is refused: what was done stays, and the files are left out', async () => {
    const called = callTool('call_1', 'read', { what: 'a', words: 1 });
    runtime.model.script(({ messages }) => [messages.at(-1)?.role === 'tool' ? fail(400) : called]);
    const page = new ChatPage(host);
    await page.send(file());
    expect(page.error).toContain('refused the request');
    expect(await stored(page)).toEqual(['user: text,file', 'assistant: step-start,tool-read,data-refused']);
    answering();
    expect(await page.send('hello')).toBe('fine');
    expect(sent().map(({ role, files }) => [role, files.length])).toEqual(
      ['user', 'call', 'tool', 'assistant', 'user'].map((role) => [role, 0]),
    );
  });

  it('R6 X1 answered again by another model, a message has its files again; edited, it is as it was edited', async () => {
    answering();
    const page = new ChatPage(host);
    await page.send(file());
    expect(await page.again(SEES)).toBe('a dot');
    expect(sent()).toEqual([{ role: 'user', texts: ['look'], files: ['image_url'] }]);
    expect(await stored(page)).toEqual(['user: text,file', 'assistant: step-start,text']);
    const other = new ChatPage(host);
    await other.send(file());
    expect(await other.edit('look, without it')).toBe('fine');
    expect(sent()).toEqual([{ role: 'user', texts: ['look, without it'], files: [] }]);
  });

  it('R6 X4 T7 it stays refused in a branch, and in an import of an export', async () => {
    answering();
    const page = new ChatPage(host);
    await page.send(file());
    await page.send('hello');
    for (const each of [await branchOf(page), await importOf(page)]) {
      expect(await each.send('and now?')).toBe('fine');
      expect(sent()[0]).toEqual({ role: 'user', texts: [`look\n\n${NOTE}\n\nhello`], files: [] });
    }
  });

  it('R6 a failure that is not of the request takes nothing back', async () => {
    runtime.model.script(() => [fail(404, { message: 'this model does not exist' })]);
    const page = new ChatPage(host);
    await page.send(file());
    expect(page.error).toContain('does not know this model');
    expect(await stored(page)).toEqual(['user: text,file']);
    answering();
    expect(await page.send('hello', SEES)).toBe('a dot');
    expect(sent()).toEqual([{ role: 'user', texts: ['look', 'hello'], files: ['image_url'] }]);
  });
});

describe('a turn that a content filter stops', () => {
  const REFUSED = '[a message that the content filter of the model provider refused]';
  /** What a tool brings of "something bad" is stopped, before or within the answer to it. */
  const stopping = (...actions: ModelAction[]) => {
    const script = strictly(({ messages }) => {
      if (!JSON.stringify(messages).includes('something bad')) return [say('fine')];
      return messages.at(-1)?.role === 'tool' ? actions : [callTool('call_1', 'read', { what: 'something bad' })];
    });
    runtime.model.script((request, index) => (request.model === 'sees' ? [say('a dot')] : script(request, index)));
  };

  it.each([
    ['its status', [fail(400, { code: 'content_filter', message: 'flagged' })], 'step-start,tool-read'],
    ['its finish reason', [say('I must'), finish('content_filter')], 'step-start,tool-read,step-start,text'],
  ])('R6 by %s: the next message is answered without message, calls and answer', async (_by, actions, parts) => {
    stopping(...actions);
    const page = new ChatPage(host);
    expect(await page.send('hello')).toBe('fine');
    await page.send('fetch something bad');
    expect(page.error).toContain('content filter refused this turn');
    const [, , asked, answer] = await page.stored();
    const part = { type: 'data-refused', id: expect.any(String), data: { messages: [asked!.id], whole: true } };
    expect(page.chunks).toContainEqual(part);
    expect(answer!.parts.map(({ type }) => type).join()).toBe(`${parts},data-refused`);
    expect(await page.send('and now?')).toBe('fine');
    expect(sent().map(({ role, texts }) => `${role}: ${texts.join()}`)).toEqual([
      'user: hello',
      'assistant: fine',
      `user: ${REFUSED}\n\nand now?`,
    ]);
  });

  it('R6 X1 X4 answered again in vain, or in a branch without its answer, it is left out with the next message', async () => {
    const refused = fail(400, { code: 'content_filter', message: 'flagged' });
    stopping(refused);
    const page = new ChatPage(host);
    await page.send('fetch something bad');
    const [{ id } = { id: '' }] = await page.stored();
    const { body } = await page.command('branch', { from_message_id: id });
    runtime.model.script(() => [fail(401)]);
    await page.again();
    stopping(refused);
    for (const each of [page, new ChatPage(host, { id: body.session.session_id as string })]) {
      await each.send('hello');
      expect(each.error).toContain('content filter refused this turn');
      expect(await each.send('and now?')).toBe('fine');
      expect(sent()).toEqual([{ role: 'user', texts: [`${REFUSED}\n\n${REFUSED}\n\nand now?`], files: [] }]);
    }
  });

  it('R6 X1 X4 T7 it stays out in a branch and an import; answered again by another model, it is back', async () => {
    stopping(fail(400, { code: 'content_filter', message: 'flagged' }));
    const page = new ChatPage(host);
    await page.send('fetch something bad');
    expect(await page.send('hello')).toBe('fine');
    for (const each of [await branchOf(page), await importOf(page)]) {
      expect(await each.send('and now?')).toBe('fine');
      expect(sent()[0]!.texts).toEqual([`${REFUSED}\n\nhello`]);
    }
    const other = new ChatPage(host);
    await other.send('fetch something bad');
    expect(await other.again(SEES)).toBe('a dot');
    expect(sent()).toEqual([{ role: 'user', texts: ['fetch something bad'], files: [] }]);
  });
});

describe('a turn without an answer', () => {
  it('R6 after a turn that failed, roles alternate', async () => {
    answering({ 'fail!': [fail(401)] });
    const page = new ChatPage(host);
    await page.send('fail!');
    expect(await page.send('hello')).toBe('fine');
    expect(sent()).toEqual([{ role: 'user', texts: ['fail!\n\nhello'], files: [] }]);
  });

  it('R6 after an abort before the first word, roles alternate', async () => {
    answering({ 'hang!': [hang()] });
    const page = new ChatPage(host);
    const before = runtime.model.requests.length;
    const hanging = page.send('hang!');
    await runtime.model.request(before);
    expect((await page.command('abort')).status).toBe(200);
    await hanging;
    await eventually(async () => expect(await page.status()).toEqual({ state: 'idle' }));
    expect(await page.send('hello')).toBe('fine');
    expect(sent()).toEqual([{ role: 'user', texts: ['hang!\n\nhello'], files: [] }]);
  });

  it('R6 blank answers, and blank texts before a tool call, are left out', async () => {
    answering({ blank: [say('\n\n')], tool: [say('\n\n'), callTool('call_1', 'read', { what: 'a', words: 1 })] });
    const page = new ChatPage(host);
    await page.send('blank');
    await page.send('tool');
    expect(await page.send('hello')).toBe('fine');
    const heard = sent().map(({ role, texts }) => `${role}: ${texts.join()}`);
    expect(heard).toEqual(['user: blank\n\ntool', 'call: ', 'tool: ', 'assistant: seen', 'user: hello']);
  });
});
