// Workers on an SDK, and a Node, whose inside is not as this version expects: each answers its turns, and says what it lacks.
import { beforeAll, expect, it } from 'vitest';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { lastUserText, startModelServer } from '../../tools/test-kit/model-server.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { type Processes, processesOn } from '../../tools/test-kit/processes.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { type Servers, TestSession } from '../../tools/test-kit/session.ts';

/** Edits of the SDK's files, a module that it no longer has, and code that runs first in each thread. */
interface Upgrade {
  edits?: [file: string, from: string, to: string][];
  gone?: string;
  first?: string;
}

const PLANTS = 'a garden';

let servers: Servers;
let processes: Processes;
beforeAll(async () => {
  const model = await startModelServer((request) =>
    request.messages.at(-1)?.role === 'user' && lastUserText(request) === PLANTS
      ? [callTool('c', 'write_file', { path: 'garden.txt', content: 'tulips' })]
      : [say('It is planted.')],
  );
  afterFile(() => model.close());
  const [databaseUrl, { address, namespace, client }] = await Promise.all([freshDatabase(), freshNamespace()]);
  const db = patientPool(databaseUrl);
  afterFile(() => db.end());
  servers = { db, temporal: client };
  processes = await processesOn({ databaseUrl, address, namespace }, model.url);
});

/** What a process and its threads import first, so that they find another SDK. */
function importing({ edits = [], gone, first = '' }: Upgrade): string {
  const code = `
    import { registerHooks } from 'node:module';
    ${first}
    registerHooks({
      resolve(name, context, next) {
        if (name === ${JSON.stringify(gone)}) throw new Error('Cannot find module ' + name);
        return next(name, context);
      },
      load(url, context, next) {
        const loaded = next(url, context);
        for (const [file, from, to] of ${JSON.stringify(edits)}) {
          if (!url.endsWith('/@temporalio/worker/lib/' + file)) continue;
          const source = String(loaded.source);
          if (!source.includes(from)) throw new Error(file + ' has no ' + from);
          loaded.source = source.replaceAll(from, to);
        }
        return loaded;
      },
    });`;
  return `--import=data:text/javascript,${encodeURIComponent(code)}`;
}

/** Starts such a worker, has it answer two turns of a new session, and returns what it has logged of its start. */
async function answersOn(upgrade: Upgrade): Promise<string[]> {
  const worker = await processes.worker({ NODE_OPTIONS: importing(upgrade) });
  const session = await TestSession.open(servers);
  const answer = async (text: string) => {
    const { state, answer_id } = await session.ended(await session.send(text));
    const parts = await session.parts(answer_id);
    return [state, ...parts.map(({ type, text: said, state: end }) => said ?? end ?? type)];
  };
  const step = 'step-start';
  expect(await answer(PLANTS)).toEqual(['finished', step, 'output-available', step, 'It is planted.']);
  expect(await answer('and now?')).toEqual(['finished', step, 'It is planted.']);
  const logs = await worker.logs();
  expect((await worker.stop()).code).toBe(0);
  return logs.map(({ msg }) => msg).filter((msg) => /not ours|is warm/.test(msg));
}

const notOurs = (thing: string) => expect.stringContaining(`${thing}: not ours: slower, but right: `) as string;

it('W1 today’s SDK and Node: the worker says that its thread is warm, and lacks nothing', async () => {
  expect(await answersOn({})).toEqual(['the workflow thread is warm']);
});

it('W1 the SDK no longer lets others load its workflow thread: the thread is its own', async () => {
  const gone = '@temporalio/worker/lib/workflow/workflow-worker-thread.js';
  expect(await answersOn({ gone })).toEqual([notOurs('workflow threads')]);
});

it('W8 the SDK creates its workflows in another way: the worker has no warm-up and no cache', async () => {
  const edits: Upgrade['edits'] = [['worker.js', 'createWorkflowCreator', 'makeWorkflowCreator']];
  expect(await answersOn({ edits })).toEqual([notOurs('creation of workflows')]);
});

it('W8 the SDK disposes of its workflows in another way: the worker goes on without its cache', async () => {
  const edits: Upgrade['edits'] = [
    ['worker.js', '.dispose(', '.release('],
    ['workflow/threaded-vm.js', 'async dispose(', 'async release('],
  ];
  expect(await answersOn({ edits })).toEqual([notOurs('workflow cache')]);
});

it('W1 Node’s functions cannot be replaced: workflows run with time limits and stack traces', async () => {
  const first = `
    import v8 from 'node:v8';
    import vm from 'node:vm';
    Object.freeze(vm.Script.prototype);
    Object.freeze(v8.promiseHooks);`;
  expect(await answersOn({ first })).toEqual([
    notOurs('calls into workflows without a time limit'),
    notOurs('promises without stack traces'),
  ]);
});
