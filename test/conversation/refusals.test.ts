// Every refusal names a way on that exists: the advice of the chat page, followed over HTTP, leads to a session that works.
import { rm, writeFile } from 'node:fs/promises';
import { SignJWT } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { PostgresSessionService } from '../../client/state/index.ts';
import { ERROR_STATUS, type ErrorCode, type PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { loopbackUser } from '../../host/auth/loopback-user.ts';
import { tokenUser } from '../../host/auth/token-user.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { Gate } from '../../tools/test-kit/gate.ts';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import { hang, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText } from '../../tools/test-kit/model-server.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { problemOfResponse, wordsOf } from '../../web/api/problem.ts';
import { ChatPage } from './chat-page.ts';
import { initiativeCases } from './initiative-refusals.ts';
import { agent, isSummary, SUMMARY, words } from './kit.ts';

const SECRET = 'a secret of at least thirty-two bytes';
const IMAGE = { type: 'file' as const, mediaType: 'image/png', url: 'data:image/png;base64,iVBORw0KGgo=' };

let runtime: TestRuntime;
let host: TestHost;
let ada: TestCaller;
let eve: TestCaller;
beforeAll(async () => {
  runtime = await startRuntime({
    agents: [agent('talker')],
    script: (request) => {
      if (isSummary(request)) return [say(SUMMARY)];
      return lastUserText(request).startsWith('hang') ? [say('So'), hang()] : [say('fine')];
    },
  });
  host = await hostWith();
  [ada, eve] = [host.as('ada'), host.as('eve')];
});

function hostWith(parts: NonNullable<Parameters<typeof startHost>[0]['parts']> = {}): Promise<TestHost> {
  const { databaseUrl, temporal, workspaces } = runtime;
  return startHost({ databaseUrl, temporal, workspaces, agents: ['talker'], parts });
}

/** A session of ada with an answered message. */
class Place {
  readonly page = new ChatPage(host);
  readonly key = newId('cmd');

  get at(): string {
    return `/api/sessions/${this.page.id}`;
  }

  post(path: string, body: object = {}, headers = {}): Promise<Received> {
    return ada.post(`${this.at}/${path}`, body, headers);
  }

  /** Starts an answer that does not end. Returns the id of its message. */
  async hanging(): Promise<string> {
    const id = newId('msg');
    expect((await this.post('messages', { id, text: 'hang' })).status).toBe(202);
    await eventually(async () => expect((await this.page.stored()).at(-1)?.role).toBe('assistant'));
    return id;
  }

  /** The id of the first message of the user, or of the agent. */
  async first(role: 'user' | 'assistant'): Promise<string> {
    return (await this.page.stored()).find((message) => message.role === role)!.id;
  }

  async exported(): Promise<string[]> {
    return (await (await ada.fetch(`${this.at}/export`)).text()).trimEnd().split('\n');
  }
}

/** What cases use of a response. */
interface Received {
  status: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- each case knows the shape that it expects
  body: any;
}

const answerOf = async (response: Response): Promise<Received> => ({
  status: response.status,
  body: await response.json(),
});
const importing = async (lines: string[]) =>
  answerOf(await ada.fetch('/api/import', { method: 'POST', body: lines.join('\n') }));
const open = (body: object = {}) => ada.post('/api/sessions', body);

/** A refusal, the page's advice, and what follows it: requests that must succeed. */
interface Case {
  refused(place: Place): Promise<Received>;
  advice: RegExp;
  follow(place: Place): Promise<Received>;
}

/** Uploads an image to a session; returns its URL. */
async function attached(at: string): Promise<string> {
  const headers = { 'content-type': 'image/png' };
  const content = Buffer.from(IMAGE.url.split(',')[1]!, 'base64');
  const response = await ada.fetch(`${at}/attachments`, { method: 'POST', headers, body: content });
  return ((await response.json()) as { url: string }).url;
}

const reload = (place: Place) => ada.get(`${place.at}/messages`);
const goOn = (place: Place) => place.post('messages', { text: 'on' });
const exportAgain = async (place: Place) => importing(await place.exported());

/** Imports an export that was changed on its way. */
const damaged = (change: (lines: string[]) => void): Case => ({
  refused: async (place) => {
    const lines = await place.exported();
    change(lines);
    return importing(lines);
  },
  advice: /Export the session again/,
  follow: exportAgain,
});

/**
 * `StateNotSet` ends runs only, `EventConflict` is of events with ids of their own (test/rows/session-service.test.ts); the others need a
 * call that asks (test/http/approvals.test.ts), or a package that is missing.
 */
const ELSEWHERE = [
  'StateNotSet',
  'EventConflict',
  'NotOffered',
  'ProjectRequired',
  'ManifestRule',
  'NotSupported',
] as const;
type Elsewhere = (typeof ELSEWHERE)[number];

/** The codes that requests are refused with. */
const CASES: Record<Exclude<ErrorCode, Elsewhere>, Case> = {
  NotWaiting: {
    refused: (place) => place.post('answer', { tool_call_id: 'call_none', decision: 'once' }),
    advice: /Look at the call again/,
    follow: reload,
  },
  RuleNotFound: { refused: (place) => ada.delete(`${place.at}/permissions/none`), advice: /Reload/, follow: reload },
  BadRequest: {
    refused: (place) => place.post('messages', { text: 7 }),
    advice: /Change it and try again/,
    follow: goOn,
  },
  Unauthorized: {
    refused: async (place) => (await strict()).as('ada').get(place.at),
    advice: /Enter a token/,
    follow: async (place) => {
      const claims = { sub: 'ada', exp: Math.floor(Date.now() / 1_000) + 60 };
      const token = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from(SECRET));
      const headers = { authorization: `Bearer ${token}` };
      return answerOf(await (await strict()).as('ada').fetch(place.at, { headers }));
    },
  },
  Forbidden: {
    refused: async (place) => answerOf(await ada.fetch(place.at, { headers: { origin: 'https://evil.example' } })),
    advice: /open the page at the address/,
    follow: async (place) => answerOf(await ada.fetch(place.at, { headers: { origin: host.url } })),
  },
  SessionNotFound: {
    refused: () => ada.get('/api/sessions/none'),
    advice: /Start a new session/,
    follow: () => open(),
  },
  ProjectNotFound: {
    refused: async () => {
      await eve.post('/api/sessions', { project_id: 'prj-eve' });
      return open({ project_id: 'prj-eve' });
    },
    advice: /Check its name/,
    follow: () => open({ project_id: 'prj-ada' }),
  },
  MessageNotFound: {
    refused: (place) => place.post('rewind', { message_id: 'none' }),
    advice: /Reload/,
    follow: async (place) => place.post('rewind', { message_id: await place.first('user') }),
  },
  AttachmentNotFound: {
    refused: async (place) => {
      const { session_id: other } = (await open()).body.session as { session_id: string };
      const url = await attached(`/api/sessions/${other}`);
      return ada.get(`${place.at}/attachments/${url.replace('perdure:', '')}`);
    },
    advice: /Attach the file again/,
    follow: async (place) => place.post('messages', { parts: [{ ...IMAGE, url: await attached(place.at) }] }),
  },
  ToolOutputNotFound: {
    refused: (place) => ada.get(`${place.at}/tool-outputs/call_none`),
    advice: /Reload/,
    follow: reload,
  },
  PromptNotFound: { refused: () => ada.get(`/api/prompts/${'0'.repeat(64)}`), advice: /Reload/, follow: reload },
  NotFound: { refused: () => ada.get('/api/nothing'), advice: /Reload/, follow: reload },
  MethodNotAllowed: {
    refused: async () => answerOf(await ada.fetch('/api/sessions', { method: 'PUT', body: '{}' })),
    advice: /Reload/,
    follow: reload,
  },
  InvalidTransition: {
    refused: (place) => place.post('publish'),
    advice: /The phase above is the current one/,
    follow: async (place) => {
      expect((await ada.get(place.at)).body.session.phase).toBe('chatting');
      return place.post('open', { project_id: place.key });
    },
  },
  ProjectAlreadyLocked: {
    refused: async (place) => {
      await place.post('open', { project_id: place.key });
      return place.post('open', { project_id: `${place.key}-2` });
    },
    advice: /Start a new session for another project/,
    follow: (place) => open({ project_id: `${place.key}-2` }),
  },
  MessageConflict: {
    refused: async (place) => place.post('messages', { id: await place.first('user'), text: 'other words' }),
    advice: /send it as a new message/,
    follow: (place) => place.post('messages', { text: 'other words' }),
  },
  RunInFlight: {
    refused: async (place) => {
      await place.hanging();
      return place.post('branch', { from_message_id: await place.first('user') });
    },
    advice: /Stop the answer or wait/,
    follow: async (place) => {
      await place.post('abort');
      await eventually(async () => expect(await place.page.status()).toEqual({ state: 'idle' }));
      return place.post('branch', { from_message_id: await place.first('user') });
    },
  },
  NotQueued: {
    refused: async (place) => ada.delete(`${place.at}/messages/${await place.hanging()}`),
    advice: /you can stop that/,
    follow: (place) => place.post('abort'),
  },
  StaleSession: {
    refused: async (place) => {
      const { lastUpdateTime } = (await ada.get(`${place.at}/state`)).body;
      await place.post('state', { stateDelta: { n: 1 } });
      return place.post('state', { stateDelta: { n: 2 }, lastUpdateTime });
    },
    advice: /look at it again, then change it/,
    follow: async (place) => {
      const { lastUpdateTime } = (await ada.get(`${place.at}/state`)).body;
      return place.post('state', { stateDelta: { n: 2 }, lastUpdateTime });
    },
  },
  // The routes choose the ids of sessions; the library lets a program choose them.
  SessionExists: {
    refused: async (place) => {
      await create(place.key);
      return create(place.key);
    },
    advice: /Choose another id/,
    follow: (place) => create(`${place.key}-2`),
  },
  KeyReused: {
    refused: async (place) => {
      await place.post('state', { stateIncrements: { n: 1 } }, { 'idempotency-key': place.key });
      return place.post('state', { stateIncrements: { n: 2 } }, { 'idempotency-key': place.key });
    },
    advice: /Send it under a new key/,
    follow: (place) => place.post('state', { stateIncrements: { n: 2 } }, { 'idempotency-key': `${place.key}-2` }),
  },
  NotUserMessage: {
    refused: async (place) => place.post('rewind', { message_id: await place.first('assistant') }),
    advice: /Go back to a message of yours/,
    follow: async (place) => place.post('rewind', { message_id: await place.first('user') }),
  },
  MessageHidden: {
    refused: async (place) => {
      const first = await place.first('user');
      await place.page.send('later');
      const later = (await place.page.stored()).findLast(({ role }) => role === 'user')!;
      await place.post('rewind', { message_id: first });
      return place.post('rewind', { message_id: later.id });
    },
    advice: /Reload/,
    follow: async (place) => {
      expect((await reload(place)).body.items, 'the message that was gone back to').toHaveLength(1);
      return place.post('unrewind');
    },
  },
  NothingToUnrewind: { refused: (place) => place.post('unrewind'), advice: /Reload/, follow: reload },
  InvalidRange: {
    refused: async (place) => {
      const id = await place.first('user');
      return place.post('branch', { from_message_id: id, from_start_message_id: id, tail_turns: 1 });
    },
    advice: /Reload/,
    follow: async (place) => place.post('branch', { from_message_id: await place.first('user'), tail_turns: 1 }),
  },
  InvalidLine: damaged((lines) => lines.splice(1, 1, '{')),
  WrongOrder: damaged((lines) => lines.push(lines.shift()!)),
  ForeignId: damaged((lines) => {
    const at = lines.findIndex((line) => /"kind": ?"part"/.test(line));
    lines.splice(at, 1, JSON.stringify({ ...(JSON.parse(lines[at]!) as object), message_id: 'elsewhere' }));
  }),
  DuplicateId: damaged((lines) => {
    const [first, second] = lines.flatMap((line, at) => (/"kind": ?"part"/.test(line) ? [at] : []));
    const { id } = JSON.parse(lines[first!]!) as { id: string };
    lines.splice(second!, 1, JSON.stringify({ ...(JSON.parse(lines[second!]!) as object), id }));
  }),
  ...initiativeCases(() => ada),
  NothingToCompact: { refused: (place) => place.post('compact'), advice: /go on with the conversation/, follow: goOn },
  NothingToPrune: {
    refused: async (place) => {
      for (const name of ['one', 'two', 'three']) await place.page.send(words(200, name));
      return place.post('prune');
    },
    advice: /Compact the conversation instead/,
    follow: (place) => place.post('compact'),
  },
  ChildSession: {
    refused: async (place) => {
      const [{ body: parent }, { body: own }] = [await open(), await ada.get(place.at)];
      await runtime.db.query('UPDATE chat_sessions SET depth = 1, parent_id = $2 WHERE session_id = $1', [
        own.session.session_id,
        parent.session.session_id,
      ]);
      return goOn(place);
    },
    advice: /Write in the session that has called it/,
    follow: async (place) => {
      const { body } = await ada.get(place.at);
      const followed = await ada.post(`/api/sessions/${body.chat.parent_id as string}/messages`, { text: 'on' });
      // A user's session again, which the page goes on with.
      await runtime.db.query('UPDATE chat_sessions SET depth = 0 WHERE session_id = $1', [body.session.session_id]);
      return followed;
    },
  },
  TooManyAnswers: {
    refused: async (place) => {
      const [message] = await place.page.stored();
      await runtime.db.query(
        `INSERT INTO chat_messages (id, session_id, position, role, hidden_at)
         SELECT 'answer' || n, session_id, position + n, 'assistant', now()
           FROM chat_messages, generate_series(2, 998) AS n WHERE id = $1`,
        [message!.id],
      );
      return ada.post('/api/chat', { id: place.page.id, messages: [message], trigger: 'regenerate-message' });
    },
    advice: /998 at most.*Edit the message instead/,
    follow: async (place) => {
      expect(await place.page.edit('other words')).toBe('fine');
      return reload(place);
    },
  },
  TooLarge: {
    refused: (place) => place.post('messages', { text: 'x'.repeat(300_000) }),
    advice: /Make it shorter/,
    follow: goOn,
  },
  ModelNotConfigured: {
    refused: (place) => place.post('messages', { text: 'x', model: 'openai/none' }),
    advice: /Choose another model/,
    follow: (place) => place.post('messages', { text: 'x', model: 'openai/plain' }),
  },
  ModalityNotSupported: {
    refused: (place) => place.post('messages', { parts: [IMAGE], model: 'openai/plain' }),
    advice: /Leave the file out, or choose another model/,
    follow: (place) => place.post('messages', { parts: [IMAGE], model: 'openai/sees' }),
  },
  AgentNotConfigured: {
    refused: () => open({ agent: 'nobody' }),
    advice: /talker.* operator/,
    follow: () => open({ agent: 'talker' }),
  },
  WorkspaceNotUsable: {
    refused: async (place) => {
      const folder = await place.page.folder(runtime.workspaces);
      await rm(folder, { recursive: true, force: true });
      await writeFile(folder, '');
      const answer = await ada.get(`${place.at}/files`);
      await rm(folder);
      return answer;
    },
    advice: /Try again once it is a folder again, or start a new session/,
    follow: async () => ada.get(`/api/sessions/${(await open()).body.session.session_id as string}/files`),
  },
  TooMany: {
    refused: async (place) => {
      const few = (await hostWith({ maxReaders: 1 })).as('ada');
      const first = await few.fetch(`${place.at}/events`);
      const second = await answerOf(await few.fetch(`${place.at}/events`));
      await first.body!.cancel();
      await eventually(async () => {
        const again = await few.fetch(`${place.at}/events`);
        await again.body!.cancel();
        expect(again.status).toBe(200);
      });
      return second;
    },
    advice: /Wait until some/,
    follow: goOn,
  },
  Internal: {
    refused: async (place) => {
      const broken = await hostWith({ identify: () => Promise.reject(new Error('a bug')) });
      return broken.as('ada').get(place.at);
    },
    advice: /Try again in a moment/,
    follow: (place) => ada.get(place.at),
  },
  Unavailable: {
    refused: async (place) => {
      const gate = new Gate();
      const known = loopbackUser(Buffer.alloc(32, 7));
      const busy = await hostWith({
        maxRequests: 1,
        identify: async (request) => {
          if (request.headers.has('x-slow')) await gate.pass();
          return known(request);
        },
      });
      const slow = busy.as('ada').fetch(place.at, { headers: { 'x-slow': 'yes' } });
      await gate.reached;
      const refused = await busy.as('ada').get(place.at);
      gate.open();
      expect((await slow).status).toBe(200);
      return refused;
    },
    advice: /Try again in a moment/,
    follow: (place) => ada.get(place.at),
  },
};

let withTokens: Promise<TestHost> | undefined;
/** A host that requires tokens. */
const strict = () => (withTokens ??= hostWith({ identify: tokenUser({ secret: SECRET }) }));

/** Creates a state session with this id, as a program does. */
async function create(sessionId: string): Promise<Received> {
  const service = new PostgresSessionService({ database: runtime.db });
  try {
    await service.createSession({ appName: 'app', userId: 'ada', sessionId });
    return { status: 201, body: {} };
  } catch (error) {
    const { code, message } = error as PerdureError;
    return { status: ERROR_STATUS[code], body: { code, detail: message } };
  }
}

describe('the advice leads on', () => {
  it.each(Object.entries(CASES))('H2 %s', async (code, { refused, advice, follow }) => {
    const place = new Place();
    expect(await place.page.send('hello')).toBe('fine');
    const { status, body } = await refused(place);
    expect({ status, code: body.code }).toEqual({ status: ERROR_STATUS[code as ErrorCode], code });
    expect(wordsOf(problemOfResponse(status, JSON.stringify(body)))).toMatch(advice);
    const followed = await follow(place);
    expect(followed.status, JSON.stringify(followed.body)).toBeLessThan(300);
    expect(await place.page.send('and now?')).toBe('fine');
  });
});

it('H2 each code has a case here, or ends runs only', () => {
  expect(new Set([...Object.keys(CASES), ...ELSEWHERE])).toEqual(new Set(Object.keys(ERROR_STATUS)));
});
