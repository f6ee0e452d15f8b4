import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { HISTORIES, readHistories, type RecordedHistory } from '../../tools/scripts/histories/files.ts';
import { Pseudonyms } from '../../tools/scripts/histories/pseudonyms.ts';
import { typeOf } from '../../worker/replay/history.ts';
import { readable } from '../../worker/replay/payloads.ts';
import { capturingBundle, replay } from '../../worker/replay/replay.ts';
import { workflowBundle } from '../../worker/sandbox/bundle.ts';
import { CANARY } from './scenario.ts';
import { scenarios } from './scenarios.ts';
import { variant } from './variant.ts';

const root = path.join(import.meta.dirname, '..', '..');
let recorded: RecordedHistory[];

beforeAll(async () => {
  recorded = await readHistories(HISTORIES);
});

/** The recording of this name; `plain-turn.1`. */
const one = (name: string) => recorded.find((history) => history.name === name)!;

describe('recorded histories', () => {
  it('W5 there is one of every scenario', () => {
    const missing = scenarios.filter(({ name }) => !recorded.some((history) => history.name.startsWith(`${name}.`)));
    expect(
      missing.map(({ name }) => name),
      'run "npm run record"',
    ).toEqual([]);
  });

  it('W5 all of them replay with the bundle that workers run', async () => {
    const results = await replay(await workflowBundle(path.join(root, 'node_modules/.cache/perdure')), recorded);
    expect(results.filter(({ broke }) => broke).map(({ of, broke }) => `${of.name} broke at ${broke}`)).toEqual([]);
    expect(results).toHaveLength(recorded.length);
  });

  it('W5 the workflow’s requests and answers equal the recorded ones, including inputs, time-outs and summaries', async () => {
    const results = await replay(await capturingBundle(), recorded);
    expect(results.map(({ of, asked }) => ({ name: of.name, asked }))).toEqual(
      recorded.map(({ name, inputs }) => ({ name, asked: inputs })),
    );
  });

  it('W3 none contains content of a message', () => {
    const telling = recorded.filter(({ history, inputs }) => readable([history, inputs]).includes(CANARY));
    expect(telling.map(({ name }) => name)).toEqual([]);
  });

  it('W5 none names a user, a machine or a path', () => {
    const telling = recorded.filter(({ history }) => {
      const text = readable(history);
      return /\bada\b|"identity"|stackTrace|node_modules/.test(text) || !text.includes('"user-1"');
    });
    expect(telling.map(({ name }) => name)).toEqual([]);
  });
});

describe('pseudonyms', () => {
  const started = {
    eventId: '1',
    eventTime: '2026-01-01T00:00:00Z',
    eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_STARTED',
    userMetadata: { summary: payload('helper · grace@example.com') },
    workflowExecutionStartedEventAttributes: {
      workflowId: 'ses_0123456789abABCDEFGHIJKLMN',
      identity: '1@host',
      searchAttributes: { indexedFields: { PerdureUser: payload('grace@example.com') } },
    },
  };

  function payload(content: unknown) {
    const encoded = (text: string) => Buffer.from(text).toString('base64');
    return { metadata: { encoding: encoded('json/plain') }, data: encoded(JSON.stringify(content)) };
  }

  it('W5 users and ids chosen by clients become numbers, the same number for the same id', () => {
    const accepted = {
      eventId: '2',
      eventTime: '2026-01-01T00:00:00Z',
      eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED',
      workflowExecutionUpdateAcceptedEventAttributes: {
        protocolInstanceId: 'submit:the-message-of-grace',
        acceptedRequest: {
          input: { args: { payloads: [payload({ message_id: 'the-message-of-grace', run_seq: 1 })] } },
        },
      },
    };
    const digest = 'R3JhY2U'.padEnd(43, '_-');
    const command = {
      eventId: '3',
      eventTime: '2026-01-01T00:00:00Z',
      eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED',
      workflowExecutionUpdateAcceptedEventAttributes: {
        protocolInstanceId: `cancelQueued:key-of-grace:${digest}`,
        acceptedRequestMessageId: `cancelQueued:key-of-grace:${digest}/request`,
        acceptedRequest: { input: { args: { payloads: [payload({ command_id: 'key-of-grace' })] } } },
      },
    };
    const text = readable(new Pseudonyms().history({ events: [started, accepted, command] }));
    expect(text).not.toMatch(/grace|host|ABCDEFGHIJKLMN|R3JhY2U/);
    expect(text).toContain('"cancelQueued:command-1:digest-1"');
    expect(text).toContain('"cancelQueued:command-1:digest-1/request"');
    expect(text).toContain('{"command_id":"command-1"}');
    expect(text).toContain('helper · user-1');
    expect(text).toContain('{"PerdureUser":"user-1"}');
    expect(text).toContain('"submit:message-1"');
    expect(text).toContain('{"message_id":"message-1","run_seq":1}');
    expect(text).toContain('"ses_00000000000100000000000000"');
  });

  it('W5 a history with a name in an unexpected field is not saved', () => {
    const odd = {
      eventId: '2',
      eventTime: '',
      eventType: 'EVENT_TYPE_ODD',
      oddEventAttributes: { who: 'grace@example.com' },
    };
    expect(() => new Pseudonyms().history({ events: [started, odd] })).toThrow('would still name the user');
  });
});

describe('a change of workflow code', () => {
  /** Where workflows/session.ts arms its timer. */
  const idleTimer = 'closeWhenIdle(state).catch(unlessCancelled);';

  /** Where workflows/turn.ts begins each try of a step. */
  const eachTry = 'const model = run.last_model ?? run.model ?? session.settings.default_model;';

  /** The event of a recording that is the nth of its type, as a breakage names it. */
  function event(name: string, type: string, nth = 1): string {
    const found = one(name).history.events.filter((each) => typeOf(each) === type)[nth - 1]!;
    return `event ${found.eventId} (${type})`;
  }

  /** A change, and the recording whose breakage it shows in. */
  const cases: {
    change: string;
    code: [file: string, from: string, to: string];
    shows: string;
    at: [string, number?];
  }[] = [
    {
      change: 'a timer before every step',
      code: ['workflows/turn.ts', eachTry, `${eachTry} await sleep(1);`],
      shows: 'plain-turn.1',
      at: ['ActivityTaskScheduled'],
    },
    {
      change: 'another name of an activity',
      code: ['workflows/turn.ts', '`).runTool(', "`)['useTool']("],
      shows: 'build-and-publish.1',
      at: ['ActivityTaskScheduled', 2],
    },
    {
      change: 'another name of a local activity',
      code: ['workflows/workflow-state.ts', 'localActivities.loadSession(', "localActivities['openSession']("],
      shows: 'plain-turn.1',
      at: ['MarkerRecorded'],
    },
    {
      change: 'no idle timer',
      code: ['workflows/session.ts', idleTimer, ''],
      shows: 'plain-turn.1',
      at: ['TimerStarted'],
    },
    {
      change: 'search attributes that are not kept up',
      code: ['workflows/display.ts', 'if (changes.length > 0)', 'if (changes.length > 9)'],
      shows: 'build-and-publish.1',
      at: ['UpsertWorkflowSearchAttributes'],
    },
    {
      change: 'code that throws',
      code: ['workflows/session.ts', 'registerHandlers(state);', "throw new Error('a mistake');"],
      shows: 'plain-turn.1',
      at: ['WorkflowTaskStarted'],
    },
  ];

  it.each(cases)('W5 $change: replaying fails and names the event', async ({ code, shows, at }) => {
    const results = await replay(await variant(code[0], [code[1], code[2]]), [one('abort-before-start.1'), one(shows)]);
    expect(results[1]!.broke).toContain(event(shows, ...at));
  });

  it('W5 an execution that has only been started replays: its first workflow task is still to come', async () => {
    const { name, history } = one('plain-turn.1');
    const started = { name, history: { events: history.events.slice(0, 1) } };
    const broken = structuredClone(one('queue.1'));
    broken.history.events.splice(4, 1);
    const results = await replay(await capturingBundle(), [started, broken, one('queue.1')]);
    expect(results.map(({ broke }) => broke)).toEqual([undefined, expect.any(String), undefined]);
  });

  it('W5 behind "patched" the same change breaks none', async () => {
    const bundle = await variant('workflows/turn.ts', [
      eachTry,
      `${eachTry} if (patched('a-timer-before-every-step')) await sleep(1);`,
    ]);
    const results = await replay(bundle, recorded);
    expect(results.filter(({ broke }) => broke).map(({ of }) => of.name)).toEqual([]);
  });

  it('W5 another input, time-out or summary breaks no replay; the recorded inputs show it', async () => {
    const other = await variant('workflows/turn.ts', ['`tool ${', '`a tool named ${']);
    const [result] = await replay(other, [one('build-and-publish.1')]);
    expect(result!.broke).toBeUndefined();
    expect(result!.asked).not.toEqual(one('build-and-publish.1').inputs);
  });
});
