// Subagents of an agent that works on an initiative.
import { beforeAll, expect, it } from 'vitest';
import { defineAgent } from '../../agent/definition/define.ts';
import { createClient, type PerdureClient } from '../../client/client.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { planned } from '../../tools/test-kit/initiative.ts';
import { callTool, hang, say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime, type TestRuntime } from '../../tools/test-kit/runtime.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { updates } from '../../workflows/definitions.ts';
import { childrenOf, play, roleOf } from '../subagents/kit.ts';

const common = { prompt: 'You help.', tools: [], instructions: false };
const lead = defineAgent({
  ...{ ...common, id: 'lead', description: 'Leads.', mode: 'primary' },
  ...{ initiative: 'worker', subagents: ['hand', 'reader'] },
});
const hand = defineAgent({
  ...common,
  id: 'hand',
  description: 'Takes tasks, too.',
  mode: 'subagent',
  initiative: 'worker',
});
const reader = defineAgent({ ...common, id: 'reader', description: 'Has no role.', mode: 'subagent' });

let runtime: TestRuntime;
let client: PerdureClient;
beforeAll(async () => {
  runtime = await startRuntime({ agents: [lead, hand, reader] });
  client = createClient({ database: runtime.databaseUrl, temporal: runtime.temporal });
  afterFile(() => client.end());
});

it('I7 P4 a subagent with a role joins the initiative in a work session of its own; one without only reads of it', async () => {
  const { initiative } = await client.initiatives.create('ada', planned([['one', 'two']]));
  const id = initiative.initiative_id;
  const { session } = await client.openSession('ada', { agent: 'lead', metadata: { initiative_id: id } });
  const parent = TestSession.of(runtime, session.session_id);
  const ask = (call: string, agent: string) => callTool(call, 'task', { agent, prompt: `${agent} help` });
  runtime.model.script(
    play({
      lead: [[callTool('l1', 'task_next', {})], [ask('l2', 'hand')], [ask('l3', 'reader')], [say('done')]],
      hand: [[callTool('h1', 'task_next', {})], [say('I hold one')]],
      reader: [[say('I know of it')]],
    }),
  );
  expect((await parent.ended(await parent.send('lead them'))).state).toBe('finished');
  const [first] = await childrenOf(runtime, parent.id, 2);
  const { sessions, phases } = await client.initiatives.get('ada', id);
  expect(sessions).toMatchObject([
    { id: 'session-001', agent: 'lead', session_id: parent.id, status: 'active' },
    { id: 'session-002', agent: 'hand', session_id: first!.id, status: 'ended', notes: 'The subagent has ended' },
  ]);
  const tasks = phases.flatMap(({ plans }) => plans.flatMap((plan) => plan.tasks));
  expect(tasks.map(({ name, assigned_to }) => [name, assigned_to])).toEqual([
    ['one', 'session-001'],
    ['two', null],
  ]);
  const { body } = runtime.model.requests.find((request) => roleOf(request.body) === 'reader')!;
  expect(JSON.stringify(body.messages[0])).toContain('Title: An initiative');
  expect((body.tools ?? []).map(({ function: { name } }) => name)).not.toContain('task_next');
});

it('I7 P4 the task of a subagent is open once its parent was aborted', async () => {
  const { initiative } = await client.initiatives.create('ada', planned([['one']]));
  const id = initiative.initiative_id;
  const { session } = await client.openSession('ada', { agent: 'lead', metadata: { initiative_id: id } });
  const parent = TestSession.of(runtime, session.session_id);
  runtime.model.script(
    play({
      lead: [[callTool('l1', 'task', { agent: 'hand', prompt: 'hand help' })], [say('never')]],
      hand: [[callTool('h1', 'task_next', {})], [hang()]],
    }),
  );
  const seq = await parent.send('lead them');
  const held = async () => (await client.initiatives.get('ada', id)).phases[0]!.plans[0]!.tasks[0]!.assigned_to;
  await eventually(async () => expect(await held()).toBe('session-001'));
  await parent.command(updates.abort);
  expect((await parent.ended(seq)).state).toBe('aborted');
  await eventually(async () =>
    expect((await client.initiatives.get('ada', id)).sessions).toMatchObject([
      { status: 'ended', notes: 'The subagent has ended' },
    ]),
  );
  expect(await held()).toBeNull();
});
