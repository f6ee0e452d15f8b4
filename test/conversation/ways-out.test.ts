// Every error of a turn says what to do, and doing that over HTTP leads to a session that works.
import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { UIMessage } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { SUMMARIZER } from '../../agent/compaction/summarizer.ts';
import { defineAgent } from '../../agent/definition/define.ts';
import { scriptModel } from '../../agent/scripted/script-model.ts';
import { RUN_ERROR_CODES, type RunErrorCode } from '../../domain/runs.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { refusing, startStore, type TestStore } from '../../tools/test-kit/bucket.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { startHost, type TestCaller, type TestHost } from '../../tools/test-kit/host.ts';
import {
  callTool,
  fail,
  failContextLength,
  finish,
  type ModelAction,
  report,
  say,
  think,
} from '../../tools/test-kit/model-actions.ts';
import { type ChatRequest, lastUserText } from '../../tools/test-kit/model-server.ts';
import { PROVIDER_FAILURES } from '../../tools/test-kit/provider-failures.ts';
import { type RunningWorker, startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { withoutFunction } from '../../tools/test-kit/without-function.ts';
import { ChatPage } from './chat-page.ts';
import { agent, CATALOG, isSummary, SUMMARY, words } from './kit.ts';

/** Set: the prompt of the agent "buggy" throws. */
let isBroken = false;
/** The summarizer of "unable" as it should be; in AGENTS its model is not configured. */
const SUMMARIES = defineAgent({ ...SUMMARIZER, id: 'missing' });
const AGENTS = [
  agent('talker'),
  agent('by-hand', { auto: false, tail_turns: 1 }),
  agent('unable', { auto: false, tail_turns: 1, summarizer: 'missing' }),
  defineAgent({ ...SUMMARIES, model: 'elsewhere/none' }),
  defineAgent({ ...agent('short'), limits: { steps: 1 } }),
  defineAgent({ ...agent('needy'), prompt: 'You talk to {name}.' }),
  defineAgent({
    ...agent('buggy'),
    prompt: () => {
      if (isBroken) throw new TypeError('a bug');
      return 'You talk.';
    },
  }),
];
/** An agent that hosts offer, and workers do not have yet. */
const LATER = agent('later');
/** A model that hosts offer and no worker has; one that all have, one of them with a larger window, and one with a bug. */
const [MISSING, OTHER, LARGE, BUGGY] = ['elsewhere/none', 'openai/other', 'openai/large', 'mine/buggy'];
/** How often the model with a bug fails. */
let buggyCalls = 0;
const mine = () =>
  scriptModel({
    ...{ provider: 'mine', modelId: 'buggy', delayMs: 0 },
    replyTo: () => {
      buggyCalls -= 1;
      if (buggyCalls >= 0) throw new TypeError('a bug');
      return { text: 'fine', calls: [] };
    },
  });

/** Set: messages have snapshots, none of which can be restored. */
let hasSnapshots = false;

let store: TestStore;
let runtime: TestRuntime;
let worker: RunningWorker;
let host: TestHost;
let ada: TestCaller;
beforeAll(async () => {
  store = await startStore();
  afterFile(store.close);
  runtime = await startRuntime({
    s3: store.s3,
    defaultModel: 'openai/test',
    catalog: { ...CATALOG, [LARGE]: { context_limit: 200_000, max_output: 400 } },
    agents: AGENTS,
    providers: { mine },
    settings: { providerAttempts: 1 },
    hooks: {
      snapshots: {
        take: () => Promise.resolve(hasSnapshots ? 'gone' : null),
        restore: () => Promise.reject(new Error('it is gone')),
      },
    },
  });
  worker = runtime.first;
  const { databaseUrl, temporal, workspaces } = runtime;
  const agents = [...AGENTS, LATER].map(({ id }) => id) as [string, ...string[]];
  host = await startHost({
    databaseUrl,
    temporal,
    workspaces,
    agents,
    models: ['openai/test', 'openai/small', OTHER, LARGE, MISSING, BUGGY],
    clientOptions: { s3: store.s3 },
  });
  ada = host.as('ada');
});

const IMAGE: UIMessage['parts'][number] = {
  type: 'file',
  mediaType: 'image/png',
  url: 'data:image/png;base64,iVBORw0KGgo=',
};
const LOOK: UIMessage['parts'] = [{ type: 'text', text: 'look' }, IMAGE];

/** The provider answers, but fails for requests that contain `when`, as often as `times`. */
function failing(when: (request: ChatRequest) => boolean, action: ModelAction[], times = Infinity): void {
  let failed = 0;
  runtime.model.script((request) => {
    if (isSummary(request)) return [say(SUMMARY)];
    if (!when(request) || failed >= times) return [say('fine')];
    failed += 1;
    return action;
  });
}

const holds = (text: string) => (request: ChatRequest) => JSON.stringify(request.messages).includes(text);
const always = () => true;
const never = () => false;
/** What only this model refuses. */
const unlessOther = (request: ChatRequest) => request.model !== 'other';

/** The page works: a further message is answered. */
async function expectWorks(page: ChatPage): Promise<void> {
  expect(await page.send('and now?')).toBe('fine');
  expect(await page.status()).toEqual({ state: 'idle' });
}

/** A branch of the page's session, made by a route, and open in another page. */
async function branched(page: ChatPage, messageId: string): Promise<ChatPage> {
  const { status, body } = await page.command('branch', { from_message_id: messageId });
  expect(status).toBe(201);
  return new ChatPage(host, { agent: page.agent, id: body.session.session_id as string });
}

/** How a turn ends with an error, and what follows its advice. */
interface Way {
  name: string;
  agent?: string;
  /** The last run of the page's session ends with the error. */
  fails(page: ChatPage): Promise<unknown>;
  advice: RegExp;
  /** Does what the advice says. Returns the page that works then. */
  follow(page: ChatPage): Promise<ChatPage>;
}

const answeredAgain = (model?: string) => async (page: ChatPage) => {
  expect(await page.again(model)).toBe('fine');
  return page;
};
const editedTo = (text: string) => async (page: ChatPage) => {
  expect(await page.edit(text)).toBe('fine');
  return page;
};
const sent = (text: string) => async (page: ChatPage) => {
  expect(await page.send(text)).toBe('fine');
  return page;
};
const goneBack = (text: string) => async (page: ChatPage) => {
  const first = (await page.stored()).find(({ role }) => role === 'user')!;
  expect((await page.command('rewind', { message_id: first.id })).status).toBe(200);
  return sent(text)(page);
};

/** The ways out of a failure of the provider that passes. */
const passing = (...action: ModelAction[]): [Way, ...Way[]] => {
  const fails = (page: ChatPage) => {
    failing(always, action, 1);
    return page.send('hello');
  };
  const advice = /send a new message later\.$/;
  return [
    { name: 'send a new message', fails, advice, follow: sent('hello again') },
    { name: 'have the message answered again', fails, advice, follow: answeredAgain() },
  ];
};

/** Fails as long as the request contains an image. */
const withImage = (page: ChatPage) => {
  failing((request) => unlessOther(request) && holds('image_url')(request), [fail(400, { message: 'invalid image' })]);
  return page.send(LOOK);
};
const tooLong = async (page: ChatPage) => {
  failing(never, []);
  await page.send('one');
  await page.send(words(12_000, 'long'));
};
/** The provider takes it for too long, though it is not by its count. */
const refusedAsTooLong = async (page: ChatPage) => {
  failing((request) => request.model !== 'large' && holds('so much')(request), [failContextLength()]);
  await page.send('one');
  await page.send('so much');
};
const filtered =
  (...action: ModelAction[]) =>
  (page: ChatPage) => {
    failing((request) => unlessOther(request) && holds('something bad')(request), action);
    return page.send('something bad');
  };
const refusedKey = (page: ChatPage) => {
  failing(unlessOther, [fail(401)], 1);
  return page.send('hello');
};
/** No summary can be made of a conversation that the provider takes for too long. */
const uncompacted = async (page: ChatPage) => {
  failing(never, []);
  await page.send(words(300, 'one'));
  await page.send('two');
  runtime.model.script((request) => {
    if (isSummary(request)) return [fail(401)];
    return [holds('one data')(request) ? failContextLength() : say('fine')];
  });
  await page.send('three');
};
const compactInVain = async (page: ChatPage) => {
  failing(never, []);
  await page.send(words(300, 'one'));
  await page.send('two');
  runtime.model.script((request) => [isSummary(request) ? fail(401) : say('fine')]);
  expect((await page.command('compact')).status).toBe(200);
};
const notThere = async (page: ChatPage) => {
  failing(never, []);
  await page.send('hello');
};
/** A file is in the place of the session's folder. */
const noFolder = async (page: ChatPage) => {
  failing(never, []);
  await page.send('hello');
  const folder = await page.folder(runtime.workspaces);
  await rm(folder, { recursive: true });
  await writeFile(folder, '');
  await page.send('are you there?');
};
const notRestored = async (page: ChatPage) => {
  failing(never, []);
  hasSnapshots = true;
  await page.send('hello');
  hasSnapshots = false;
  await page.again();
};
/** A permanent error of the database. */
const broken = async (page: ChatPage) => {
  failing(never, []);
  const giveBack = await withoutFunction(runtime.db, 'settle_step');
  try {
    await page.send('hello');
  } finally {
    await giveBack();
  }
};

const WAYS: Record<RunErrorCode, readonly [Way, ...Way[]]> = {
  LimitReached: [
    {
      name: 'an answer of reasoning up to the output limit: have it answered by another model',
      fails: (page) => {
        failing(unlessOther, [
          think('well, well'),
          report({ input: 1, output: 400, reasoning: 400 }),
          finish('length'),
        ]);
        return page.send('hello');
      },
      advice:
        /limit of 400 tokens before the answer: .* choose a model with a longer output, and have the message answered/,
      follow: answeredAgain(OTHER),
    },
    {
      name: 'send a message',
      agent: 'short',
      fails: (page) => {
        failing(holds('use a tool'), [callTool('call_1', 'read', { what: 'a', words: 1 })], 1);
        return page.send('use a tool');
      },
      advice: /Send a message to continue/,
      follow: sent('go on'),
    },
  ],
  RateLimited: passing(...PROVIDER_FAILURES.RateLimited),
  ProviderUnavailable: passing(...PROVIDER_FAILURES.ProviderUnavailable),
  NetworkError: passing(...PROVIDER_FAILURES.NetworkError),
  Overloaded: passing(...PROVIDER_FAILURES.Overloaded),
  ProviderUnauthorized: [
    {
      name: 'check the key, have the message answered again',
      fails: refusedKey,
      advice: /check the key .* then have the message answered again/,
      follow: answeredAgain(),
    },
    {
      name: 'choose a model of another provider',
      fails: (page) => {
        failing(unlessOther, [fail(401)]);
        return page.send('hello');
      },
      advice: /choose a model of another provider; then have the message answered again/,
      follow: answeredAgain(OTHER),
    },
  ],
  ProviderRejected: [
    {
      name: 'edit the message, without files',
      fails: withImage,
      advice: /edit the message, without files/,
      follow: editedTo('look'),
    },
    {
      name: 'send a new message: the files are left out',
      fails: withImage,
      advice: /A new message works too if files were the reason/,
      follow: sent('hello'),
    },
    {
      name: 'go back, although later turns failed like it',
      fails: async (page) => {
        failing(holds('something odd'), [fail(400)]);
        await page.send('something odd');
        await page.send('and later turns fail, too');
      },
      advice: /edit the message/,
      follow: goneBack('something else'),
    },
    { name: 'another model', fails: withImage, advice: /answered by another model/, follow: answeredAgain(OTHER) },
    {
      name: 'no quota: once there is some, have the message answered again',
      fails: (page) => {
        failing(always, [fail(429, { code: 'insufficient_quota', message: 'insufficient_quota' })], 1);
        return page.send('hello');
      },
      advice: /quota .* then have the message answered again/,
      follow: answeredAgain(),
    },
    {
      name: 'no quota: choose another model',
      fails: (page) => {
        failing(unlessOther, [fail(402)]);
        return page.send('hello');
      },
      advice: /quota .* or choose another model; then have the message answered again/,
      follow: answeredAgain(OTHER),
    },
    {
      name: 'an unknown model: check its name, have the message answered again',
      fails: (page) => {
        failing(always, [fail(404, { message: 'this model does not exist' })], 1);
        return page.send('hello');
      },
      advice: /check its name, .* then have the message answered again/,
      follow: answeredAgain(),
    },
    {
      name: 'a wrong address: once it is right, have the message answered again',
      fails: (page) => {
        failing(always, [fail(404, { message: 'page not found' })], 1);
        return page.send('hello');
      },
      advice: /Check its base URL, .* then have the message answered again/,
      follow: answeredAgain(),
    },
    {
      name: 'a wrong address: choose a model of another provider',
      fails: (page) => {
        failing(unlessOther, [fail(404, { message: 'page not found' })]);
        return page.send('hello');
      },
      advice: /choose a model of another provider; then have the message answered again/,
      follow: answeredAgain(OTHER),
    },
    {
      name: 'an unknown model: choose another one',
      fails: (page) => {
        failing(unlessOther, [fail(404, { message: 'this model does not exist' })]);
        return page.send('hello');
      },
      advice: /choose another one; then have the message answered again/,
      follow: answeredAgain(OTHER),
    },
  ],
  UnreadableAnswer: [
    {
      name: 'check the address, have the message answered again',
      fails: (page) => {
        failing(always, PROVIDER_FAILURES.UnreadableAnswer, 1);
        return page.send('hello');
      },
      advice: /check the provider’s address.* then have the message answered again/,
      follow: answeredAgain(),
    },
    {
      name: 'choose another model',
      fails: (page) => {
        failing(unlessOther, PROVIDER_FAILURES.UnreadableAnswer);
        return page.send('hello');
      },
      advice: /choose another model; then have the message answered again/,
      follow: answeredAgain(OTHER),
    },
  ],
  ContextTooLong: [
    {
      name: 'edit the message',
      fails: tooLong,
      advice: /edit the last message to a shorter one/,
      follow: editedTo('short'),
    },
    {
      name: 'branch from an earlier message',
      fails: tooLong,
      advice: /branch from an earlier message/,
      follow: async (page) => branched(page, (await page.stored())[0]!.id),
    },
    { name: 'a larger model', fails: tooLong, advice: /model with a larger/, follow: answeredAgain(LARGE) },
    {
      name: 'by its provider’s word: edit the message',
      fails: refusedAsTooLong,
      advice: /edit the message to a shorter one/,
      follow: editedTo('short'),
    },
    {
      name: 'by its provider’s word: branch from an earlier message',
      fails: refusedAsTooLong,
      advice: /branch from an earlier message/,
      follow: async (page) => branched(page, (await page.stored())[0]!.id),
    },
    {
      name: 'by its provider’s word: a larger model',
      fails: refusedAsTooLong,
      advice: /model with a larger context window/,
      follow: answeredAgain(LARGE),
    },
    {
      name: 'compact, once the summarizer works again',
      agent: 'by-hand',
      fails: uncompacted,
      advice: /compact it/,
      follow: async (page) => {
        failing(holds('one data'), [failContextLength()]);
        await compacted(page);
        return answeredAgain()(page);
      },
    },
  ],
  CompactionFailed: [
    {
      name: 'try again',
      agent: 'by-hand',
      fails: compactInVain,
      advice: /Try again/,
      follow: async (page) => {
        failing(never, []);
        await compacted(page);
        return page;
      },
    },
    {
      name: 'send a message',
      agent: 'by-hand',
      fails: compactInVain,
      advice: /send a message to go on/,
      follow: sent('on'),
    },
  ],
  ContentFilter: [
    {
      name: 'by its status: send a new message',
      fails: filtered(fail(400, { code: 'content_filter', message: 'content_filter: flagged' })),
      advice: /send a new one/,
      follow: sent('something good'),
    },
    {
      name: 'by its finish reason: send a new message',
      fails: filtered(say('I must'), finish('content_filter')),
      advice: /send a new one/,
      follow: sent('something good'),
    },
    {
      name: 'edit the message',
      fails: filtered(fail(400, { code: 'content_filter', message: 'content_filter: flagged' })),
      advice: /edit the message/,
      follow: editedTo('something good'),
    },
    {
      name: 'a text that another model took: go back to an earlier message',
      fails: async (page) => {
        await filtered(say('I must'), finish('content_filter'))(page);
        expect(await page.again(OTHER)).toBe('fine');
        await page.send('hello', 'openai/test');
      },
      advice: /go back to an earlier one/,
      follow: goneBack('something good'),
    },
    {
      name: 'choose another model',
      fails: filtered(say('I must'), finish('content_filter')),
      advice: /answered by another model/,
      follow: answeredAgain(OTHER),
    },
  ],
  EmptyAnswer: [
    {
      name: 'have the message answered again',
      fails: (page) => {
        failing(always, [say(' \n')], 1);
        return page.send('hello');
      },
      advice: /have the message answered again/,
      follow: answeredAgain(),
    },
    {
      name: 'choose another model',
      fails: (page) => {
        failing(unlessOther, [think('I need not say anything')]);
        return page.send('hello');
      },
      advice: /choose another model/,
      follow: answeredAgain(OTHER),
    },
  ],
  ModelNotConfigured: [
    {
      name: 'choose another model',
      fails: (page) => {
        failing(never, []);
        return page.send('hello', MISSING);
      },
      advice: /openai\/large.* Choose another model, then have the message answered again/,
      follow: answeredAgain(OTHER),
    },
    {
      name: 'of the summarizer: send a message',
      agent: 'unable',
      fails: compactInVain,
      advice: /"elsewhere\/none" .* or send a message to go on/,
      follow: sent('on'),
    },
    {
      name: 'of the summarizer: start a worker that has it, and compact again',
      agent: 'unable',
      fails: compactInVain,
      advice: /Compact it again once the workers have the model of the summarizer/,
      follow: async (page) => {
        failing(never, []);
        await worker.stop();
        worker = await runtime.startWorker({ agents: [...AGENTS.filter(({ id }) => id !== 'missing'), SUMMARIES] });
        await compacted(page);
        return page;
      },
    },
  ],
  AgentNotConfigured: [
    {
      name: 'open a new session with another agent',
      agent: LATER.id,
      fails: notThere,
      advice: /talker.* open a new session with another agent/,
      follow: async () => new ChatPage(host),
    },
    {
      name: 'correct its prompt',
      agent: 'buggy',
      fails: async (page) => {
        failing(never, []);
        isBroken = true;
        await page.send('hello');
        isBroken = false;
      },
      advice: /prompt: .* answered again once the workers have that agent as it should be/,
      follow: answeredAgain(),
    },
    {
      name: 'start a worker with that agent',
      agent: LATER.id,
      fails: notThere,
      advice: /answered again once the workers have that agent/,
      follow: async (page) => {
        await worker.stop();
        worker = await runtime.startWorker({ agents: [...AGENTS, LATER] });
        return answeredAgain()(page);
      },
    },
  ],
  WorkspaceNotUsable: [
    {
      name: 'make it a folder again',
      fails: noFolder,
      advice: /answered again once it is a folder again/,
      follow: async (page) => {
        await rm(await page.folder(runtime.workspaces));
        return answeredAgain()(page);
      },
    },
    {
      name: 'open a new session',
      fails: noFolder,
      advice: /open a new session in another workspace/,
      follow: async () => new ChatPage(host),
    },
    {
      name: 'a snapshot is gone: have the message answered again',
      fails: notRestored,
      advice: /files as they are, have the message answered again/,
      follow: answeredAgain(),
    },
    {
      name: 'a snapshot is gone: send a new message',
      fails: notRestored,
      advice: /files as they are, .* or send a new message/,
      follow: sent('again'),
    },
  ],
  StateNotSet: [
    {
      name: 'set it',
      agent: 'needy',
      fails: notThere,
      advice: /the state key "name".* Set it, then have the message answered again/,
      follow: async (page) => {
        expect((await page.command('state', { stateDelta: { name: 'Ada' } })).status).toBe(200);
        return answeredAgain()(page);
      },
    },
  ],
  AttachmentsUnavailable: [
    {
      name: 'have the message answered again once the bucket lets the workers read',
      fails: async (page) => {
        failing(never, []);
        const url = `/api/sessions/${page.id}/attachments?agent=${page.agent}`;
        const uploaded = await ada.fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'text/plain' },
          body: 'words',
        });
        const file = (await uploaded.json()) as { url: string };
        store.behave(refusing(403));
        await page.send([...LOOK.slice(0, 1), { type: 'file', mediaType: 'text/plain', url: file.url }]);
        store.behave();
      },
      advice: /answered GET with status 403\. Have the message answered again once the settings and rights/,
      follow: answeredAgain(),
    },
  ],
  Internal: [
    { name: 'send a new message', fails: broken, advice: /send a new message/, follow: sent('again') },
    {
      name: 'of a provider: send a new message',
      fails: (page) => {
        failing(never, []);
        buggyCalls = 1;
        return page.send('hello', BUGGY);
      },
      advice: /while calling the model: send a new message/,
      follow: sent('again'),
    },
  ],
};

/** Compacts the page's conversation by hand. */
async function compacted(page: ChatPage): Promise<void> {
  const { status, body } = await page.command('compact');
  expect(status).toBe(200);
  await eventually(async () => {
    const [first] = await page.stored();
    expect(first).toMatchObject({ id: body.message_id, parts: [{ type: 'data-compaction' }] });
  });
}

/** The code of the last run. */
async function codeOf(page: ChatPage): Promise<string | null> {
  const { body } = await ada.get(`/api/sessions/${page.id}`);
  const { rows } = await runtime.db.query<{ error_code: string | null }>(
    'SELECT error_code FROM chat_runs WHERE session_id = $1 ORDER BY seq DESC LIMIT 1',
    [body.session.session_id],
  );
  return rows[0]!.error_code;
}

describe.each(Object.keys(WAYS) as (keyof typeof WAYS)[])('%s', (code) => {
  it.each(WAYS[code])('R6 $name', async ({ agent: id = 'talker', fails, advice, follow }) => {
    const page = new ChatPage(host, { agent: id });
    await fails(page);
    await eventually(async () => expect(await codeOf(page)).toBe(code));
    expect(await page.status()).toMatchObject({ state: 'error', message: expect.stringMatching(advice) });
    await expectWorks(await follow(page));
  });
});

it('R6 docs/conversation.md lists every code with what helps', async () => {
  const text = await readFile(path.join(import.meta.dirname, '..', '..', 'docs', 'conversation.md'), 'utf8');
  const table = text
    .slice(text.indexOf('## Ways out of errors'))
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  const listed = table.flatMap((line) => [...line.split('|')[1]!.matchAll(/`(\w+)`/g)].map(([, code]) => code));
  expect(listed).toHaveLength(RUN_ERROR_CODES.length);
  expect(new Set(listed)).toEqual(new Set(RUN_ERROR_CODES));
});

describe('without an error', () => {
  it('R6 X5 a conversation that is too long for its provider is compacted: its reader is told, and gets the answer', async () => {
    failing(never, []);
    const page = new ChatPage(host, { agent: 'by-hand' });
    await page.send(words(300, 'one'));
    await page.send('two');
    const told = () => page.chunks.flatMap((chunk) => (chunk.type === 'data-compaction' ? [chunk.data] : []));
    runtime.model.script(async function* (request): AsyncGenerator<ModelAction> {
      if (isSummary(request)) {
        yield say(SUMMARY);
      } else if (holds('one data')(request)) {
        yield failContextLength();
      } else {
        // A reader is told of it while the run goes on.
        const expectTold = () => expect(told().at(-1)).toMatchObject({ state: 'summarized', turns: 1 });
        if (lastUserText(request) === 'three') await eventually(expectTold);
        yield say('fine');
      }
    });
    expect(await page.send('three')).toBe('fine');
    expect(await codeOf(page)).toBeNull();
    await expectWorks(page);
  });

  it('X5 by hand: what cannot be compacted or pruned is refused, and the rest is', async () => {
    failing(never, []);
    const page = new ChatPage(host, { agent: 'by-hand' });
    await page.send(words(300, 'one'));
    expect(await page.command('compact')).toMatchObject({ status: 409, body: { code: 'NothingToCompact' } });
    await page.send('two');
    await compacted(page);
    expect(await page.command('prune')).toMatchObject({ status: 409, body: { code: 'NothingToPrune' } });
    await expectWorks(page);
  });

  it('X10 a model that is not configured is refused with those that are, and nothing changes', async () => {
    failing(never, []);
    const page = new ChatPage(host);
    await page.send('hello');
    const answer = await page.command('messages', { text: 'again', model: 'openai/none' });
    expect(answer).toMatchObject({ status: 422, body: { code: 'ModelNotConfigured' } });
    expect(answer.body.detail).toContain(OTHER);
    await expectWorks(page);
  });

  it('P5 errors of tools are the model’s to handle: the turn goes on', async () => {
    failing((request) => request.messages.at(-1)?.role !== 'tool', [callTool('call_1', 'read', { what: 7 })], 1);
    const page = new ChatPage(host);
    expect(await page.send('use a tool badly')).toBe('fine');
    await expectWorks(page);
  });
});
