// A strict provider, over HTTP with a worker: what it refuses once, or is not answered, does not make later turns fail.
import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { callTool, fail, hang, type ModelAction, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { readChat, strictly } from '../../tools/test-kit/strict-provider.ts';
import { ChatPage } from './chat-page.ts';
import { agent } from './kit.ts';

let runtime: TestRuntime;
let host: TestHost;
beforeAll(async () => {
  const agents = [agent('talker')];
  runtime = await startRuntime({ defaultModel: 'openai/test', agents, settings: { providerAttempts: 1 } });
  const { databaseUrl, temporal, workspaces } = runtime;
  host = await startHost({ databaseUrl, temporal, workspaces, agents: ['talker'], models: ['openai/test'] });
});

/** The provider answers the texts of the user like this, and else with "fine". */
function answering(answers: Record<string, ModelAction[]> = {}): void {
  const script = strictly((request) => {
    const [, actions = [say('fine')]] =
      Object.entries(answers).find(([text]) => lastUserText(request).endsWith(text)) ?? [];
    return request.messages.at(-1)?.role === 'tool' ? [say('seen')] : actions;
  });
  runtime.model.script(script);
}

/** The conversation that the provider was sent last. */
function sent(): { role: string; texts: string[]; files: string[] }[] {
  const { messages } = runtime.model.requests.at(-1)!.body;
  return messages.filter(({ role }) => role !== 'system').map(readChat);
}

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
