import { DefaultChatTransport, readUIMessageStream, type UIMessage, type UIMessageChunk } from 'ai';
import { newId } from '../../domain/ids.ts';
import type { SessionStatus } from '../../domain/runs.ts';
import type { Answer, TestCaller, TestHost } from '../../tools/test-kit/host.ts';
import { workspaceRoot } from '../../workspaces/paths.ts';

type Parts = UIMessage['parts'];

/** What a chat page of the user ada does, with the AI SDK's transport. */
export class ChatPage {
  /** An alias, or the id of an existing session. */
  readonly id: string;
  readonly agent: string;
  private readonly host: TestHost;
  private readonly caller: TestCaller;
  error = '';
  chunks: UIMessageChunk[] = [];
  private messages: UIMessage[] = [];

  constructor(host: TestHost, { agent = 'talker', id = newId('msg') } = {}) {
    this.host = host;
    this.caller = host.as('ada');
    this.agent = agent;
    this.id = id;
  }

  send(content: string | Parts, model?: string): Promise<string> {
    return this.stream([...this.messages, message(content)], { trigger: 'submit-message', model });
  }

  /** Replaces the last message of the user. */
  edit(content: string): Promise<string> {
    const at = this.messages.findLastIndex(({ role }) => role === 'user');
    const { id } = this.messages[at]!;
    return this.stream([...this.messages.slice(0, at), { ...message(content), id }], {
      trigger: 'submit-message',
      messageId: id,
    });
  }

  /** Has the last message answered again. */
  again(model?: string): Promise<string> {
    const at = this.messages.findLastIndex(({ role }) => role === 'user');
    return this.stream(this.messages.slice(0, at + 1), { trigger: 'regenerate-message', model });
  }

  private async stream(
    messages: UIMessage[],
    {
      trigger,
      messageId,
      model,
    }: { trigger: 'submit-message' | 'regenerate-message'; messageId?: string; model?: string | undefined },
  ): Promise<string> {
    const transport = new DefaultChatTransport({
      api: `${this.host.url}/api/chat`,
      headers: { 'x-perdure-user': 'ada' },
      body: { agent: this.agent, ...(model !== undefined && { model }) },
    });
    this.error = '';
    const stream = await transport.sendMessages({
      trigger,
      chatId: this.id,
      messageId,
      messages,
      abortSignal: undefined,
    });
    this.chunks = [];
    const seen = stream.pipeThrough(
      new TransformStream<UIMessageChunk, UIMessageChunk>({
        transform: (chunk, controller) => {
          this.chunks.push(chunk);
          if (chunk.type === 'error') this.error = chunk.errorText;
          else controller.enqueue(chunk);
        },
      }),
    );
    let answer: UIMessage | undefined;
    for await (const each of readUIMessageStream({ stream: seen })) answer = each;
    this.messages = answer === undefined || answer.parts.length === 0 ? messages : [...messages, answer];
    return (answer?.parts ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('');
  }

  /** The status of the session, as a route returns it. */
  async status(): Promise<SessionStatus> {
    return (await this.caller.get(`/api/sessions/${this.id}`)).body.status as SessionStatus;
  }

  /** The visible messages, as a route returns them. */
  async stored(): Promise<UIMessage[]> {
    return (await this.caller.get(`/api/sessions/${this.id}/messages`)).body.items as UIMessage[];
  }

  /** Absolute path of the session's folder. */
  async folder(workspaces: string): Promise<string> {
    const { body } = await this.caller.get(`/api/sessions/${this.id}`);
    return workspaceRoot(workspaces, body.session as Parameters<typeof workspaceRoot>[1]);
  }

  command(name: string, body: object = {}): Promise<Answer> {
    return this.caller.post(`/api/sessions/${this.id}/${name}`, body);
  }
}

function message(content: string | Parts): UIMessage {
  return {
    id: newId('msg'),
    role: 'user',
    parts: typeof content === 'string' ? [{ type: 'text', text: content }] : content,
  };
}
