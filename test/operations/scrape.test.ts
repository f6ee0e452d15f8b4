// What operators read: metrics and logs of a worker and a host after real turns.
import { createHash } from 'node:crypto';
import { glob, readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { chunksOf } from '../../tools/test-kit/host.ts';
import { callTool, fail, hang, report, say } from '../../tools/test-kit/model-actions.ts';
import { type ModelServer, startModelServer } from '../../tools/test-kit/model-server.ts';
import { type HostProcess, type OurProcess, processesOn } from '../../tools/test-kit/processes.ts';
import { freePort, freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import type { LogLine } from '../../tools/test-kit/system.ts';
import { parsed, type Scrape } from './parsed.ts';
import { alerts, queryOf } from './queries.ts';

const CANARY = createHash('sha256').update('canary').digest('hex').slice(0, 16);
const USER = 'grace-hopper';

/** The SDK's counter of failures, which is missing in a scrape before the first failure. */
const OF_FAILURES = 'temporal_workflow_task_execution_failed_total';

let host: HostProcess;
let worker: OurProcess;
let model: ModelServer;
let metricsUrl: string;
/** The session of the turns; another one of a signal. */
let session: string;
let signalled: string;

const message = (text: string) => ({ role: 'user', parts: [{ type: 'text', text }] });
const chat = (id: string, mid: string, text: string) =>
  host.as(USER).fetch('/api/chat', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id, trigger: 'submit-message', messages: [{ id: mid, ...message(text) }] }),
  });
const scrape = async (url: string): Promise<Scrape> => parsed(await (await fetch(url)).text());

beforeAll(async () => {
  const { client, ...namespace } = await freshNamespace();
  model = await startModelServer(() => []);
  afterFile(() => model.close());
  const processes = await processesOn({ databaseUrl: await freshDatabase(), ...namespace }, model.url);
  const port = await freePort();
  metricsUrl = `http://127.0.0.1:${port}/metrics`;
  // On a busy machine the sweeper could wake a slow first message, and counts would differ.
  const settings = { PERDURE_METRICS_PORT: String(port), PERDURE_SWEEP_INTERVAL: '1h' };
  [worker, host] = await Promise.all([processes.worker(settings), processes.host()]);

  model.script((_request, index) =>
    index === 0
      ? [callTool('c1', 'build_and_deploy', { confirm_new_project: true }), report({ input: 100, output: 10 })]
      : [say(`Built ${CANARY}`), report({ input: 150, output: 20, cached: 50 })],
  );
  const first = await chat('tab', 'm1', `build ${CANARY}`);
  await chunksOf(first);
  session = first.headers.get('x-perdure-session')!;
  expect((await host.as(USER).post(`/api/sessions/${session}/publish`)).status).toBe(409);

  model.script(() => [say('Once'), hang()]);
  const second = await chat('tab', 'm2', 'a story');
  await model.request(2);
  await eventually(async () => expect((await scrape(metricsUrl)).value('perdure_runs', { state: 'running' })).toBe(1));
  await host.as(USER).post(`/api/sessions/${session}/abort`);
  await chunksOf(second);

  model.script(() => [say('hello')]);
  const third = await chat('other', 'm3', 'hi');
  await chunksOf(third);
  signalled = third.headers.get('x-perdure-session')!;
  model.script(() => [fail(400)]);
  await chunksOf(await chat('failing', 'm4', 'fail'));
  // A turn may be over before its workflow is started.
  await eventually(() => client.workflow.getHandle(signalled).signal('publish'));
});

/** Waits, because a worker counts after its work is done, which readers may see earlier. */
const settled = (check: (counted: Scrape) => void) => eventually(async () => check(await scrape(metricsUrl)));

describe('the metrics of a worker', () => {
  it('H1 count turns, steps, tokens, tool calls and refusals', async () => {
    await settled((counted) => {
      const value = counted.value.bind(counted);
      expect(value('perdure_turns_total', { outcome: 'finished', code: '' })).toBe(2);
      expect(value('perdure_turns_total', { outcome: 'aborted' })).toBe(1);
      expect(value('perdure_steps_total', { model: 'openai/test' })).toBe(3);
      expect(value('perdure_tokens_total', { kind: 'cache_read' })).toBe(50);
      expect(value('perdure_tool_calls_total', { tool: 'build_and_deploy', outcome: 'ok' })).toBe(1);
      expect(value('perdure_refused_total', { command: 'publish', code: 'InvalidTransition' })).toBe(2);
    });
  });

  it('H1 measure first chunks, commits and aborts, and the queue', async () => {
    await settled((counted) => {
      const value = counted.value.bind(counted);
      expect(value('perdure_model_first_chunk_seconds_count', { model: 'openai/test' })).toBe(4);
      // An answer that is complete before its first batch is stored with its step.
      expect(value('perdure_delta_lag_seconds_count')).toBeGreaterThanOrEqual(1);
      expect(value('perdure_abort_seconds_count')).toBe(1);
      expect(value('perdure_queue_oldest_seconds')).toBe(0);
      expect(value('perdure_bus_batches_total')).toBeGreaterThan(0);
      expect(value('perdure_stuck_sessions')).toBe(0);
      expect(value('perdure_bus_listening_total')).toBeGreaterThanOrEqual(1);
      expect(value('perdure_sweeper_wakes_total')).toBe(0);
    });
  });

  it('H1 include the SDK’s metrics, in seconds', async () => {
    const counted = await scrape(metricsUrl);
    expect(counted.value('temporal_workflow_completed_total') ?? 0).toBe(0);
    expect(counted.names).toEqual(
      expect.arrayContaining([
        'temporal_workflow_task_schedule_to_start_latency_seconds_count',
        'temporal_worker_task_slots_available',
        'temporal_worker_task_slots_used',
        'temporal_sticky_cache_size',
        'temporal_request_latency_seconds_count',
      ]),
    );
  });
});

it('H1 the metrics of a host include requests, refusals, streams and its bus', async () => {
  // A reader sees the end of a stream before the host counts it.
  const counted = await eventually(async () => {
    const found = await scrape(`${host.url}/metrics`);
    expect(found.value('perdure_http_streams', { route: 'chat' })).toBe(0);
    return found;
  });
  expect(
    counted.value('perdure_http_request_seconds_count', { method: 'POST', route: '/api/chat', status: '200' }),
  ).toBe(4);
  expect(counted.value('perdure_refused_total', { command: 'publish', code: 'InvalidTransition' })).toBe(1);
  expect(counted.value('perdure_bus_listening_total')).toBeGreaterThanOrEqual(1);
});

it('Q3 no metric contains a session, a user or content', async () => {
  for (const url of [metricsUrl, `${host.url}/metrics`]) {
    const { labelValues } = await scrape(url);
    expect(labelValues.filter((value) => /(?:ses|msg|prt|prj|call)_|canary/.test(value))).toEqual([]);
    expect(labelValues).not.toContain(USER);
  }
});

it('W2 a refused signal is in the log of the workflow and of the activity, each line with its session', async () => {
  const lines = await eventually(async () => {
    const found = await worker.logs();
    expect(found.map((line) => line.msg)).toContain('a signal was refused');
    return found;
  });
  const said = (msg: RegExp, about: string) => lines.filter((line) => msg.test(line.msg) && line['session'] === about);
  expect(said(/^a signal was refused/, signalled)).toHaveLength(1);
  expect(said(/^refused: /, signalled)).toMatchObject([{ actor: 'operator', code: 'InvalidTransition' }]);
  expect(said(/^refused: /, session)).toMatchObject([{ actor: 'user', command: 'publish' }]);
});

it('Q3 no log line contains content, and every line about a session names it', async () => {
  const lines: LogLine[] = [...(await worker.logs()), ...(await host.logs())];
  expect(lines.length).toBeGreaterThan(4);
  expect(lines.filter((line) => JSON.stringify(line).includes(CANARY))).toEqual([]);
  const without = lines.filter(
    (line) => /ses_\w{26}/.test(JSON.stringify(line)) && typeof line['session'] !== 'string',
  );
  expect(without).toEqual([]);
});

/** With labels, but without a sample here: no answer streams, and the agent has no MCP server. */
const NOT_SEEN = new Set(['perdure_http_streams', 'perdure_mcp_tool_changes_total']);

describe('the operator’s guide', () => {
  const guide = () => readFile('docs/operations.md', 'utf8');
  /** The metric of a query's series: a histogram's series have suffixes. */
  const familyOf = (name: string, { families }: Scrape) =>
    [name, name.replace(/_(?:bucket|sum|count)$/, '')].find((each) => families.has(each));

  it('H1 has exactly our metrics in its table, each with its labels and process', async () => {
    const [ofWorker, ofHost] = await Promise.all([metricsUrl, `${host.url}/metrics`].map(scrape));
    const told = (await guide()).split('\n').flatMap((line) => {
      const [, names = '', of = ''] = /^\| ((?:`perdure_\S+?`(?:, )?)+) +\| (worker|host|both) /.exec(line) ?? [];
      return Array.from(names.matchAll(/`(\w+)(?:\{([\w,]+)\})?`/g), ([, name = '', labels = '']) => ({
        name,
        of,
        labels,
      }));
    });
    const namesOf = (process: string) =>
      new Set(told.filter(({ of }) => of === process || of === 'both').map(({ name }) => name));
    const oursOf = ({ families }: Scrape) =>
      new Set([...families.keys()].filter((name) => name.startsWith('perdure_')));
    expect(namesOf('worker')).toEqual(oursOf(ofWorker!));
    expect(namesOf('host')).toEqual(oursOf(ofHost!));
    for (const { name, labels } of told) {
      const seen = [ofWorker, ofHost].flatMap((each) => Array.from(each!.families.get(name) ?? []));
      if (seen.length > 0)
        expect({ name, labels: new Set(seen) }).toEqual({ name, labels: new Set(labels.split(',')) });
      else expect(labels === '' || NOT_SEEN.has(name), name).toBe(true);
    }
  });

  it('H1 and the alerts use existing metrics and labels', async () => {
    const scrapes = await Promise.all([metricsUrl, `${host.url}/metrics`].map(scrape));
    const dashboard = /^For a dashboard:[^]*?\n\n/m.exec(await guide())?.[0] ?? '';
    const queries = [
      ...(await alerts()).map(({ expr }) => expr),
      ...Array.from(dashboard.matchAll(/`([^`]+)`/g), ([, query = '']) => query),
    ].map((text) => queryOf(text.replaceAll('\n', ' ')));
    expect(queries.length).toBeGreaterThan(15);
    const [sdk = ''] = await Array.fromAsync(glob('node_modules/@temporalio/core-bridge/releases/*/index.node'));
    expect((await readFile(sdk)).includes(OF_FAILURES.replace(/^temporal_|_total$/g, ''))).toBe(true);
    for (const { text, metrics, labels } of queries) {
      for (const metric of metrics.filter((name) => name !== OF_FAILURES)) {
        const found = scrapes.find((each) => familyOf(metric, each) !== undefined);
        expect(found, `${metric} of ${text}`).toBeDefined();
        const known = found!.families.get(familyOf(metric, found!)!)!;
        if (known.size > 0 && metrics.length === 1)
          for (const label of labels) expect([...known], text).toContain(label);
      }
    }
  });
});
