import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { agentRegistry, loadAgents } from '../../agent/loading/agent-registry.ts';
import { memorySession } from '../../agent/memory/memory-session.ts';
import { createModels } from '../../agent/models/models.ts';
import { loadProviders } from '../../agent/models/providers.ts';
import { requireDefaultModels } from '../../agent/models/require-default-models.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { catalogOf } from '../../host/catalog.ts';

const folder = mkdtempSync(path.join(os.tmpdir(), 'perdure-agents-'));
let files = 0;

function throws(message: string): never {
  throw new Error(message);
}

function moduleOf(source: string): string {
  const file = path.join(folder, `agents-${++files}.mjs`);
  writeFileSync(file, source);
  return file;
}

const agent = (id: string, more = '') =>
  `{ id: '${id}', description: 'd', mode: 'primary', prompt: 'p', tools: [] ${more}}`;

describe('providers', () => {
  it('H9 a provider is a function of the name, or a provider of the AI SDK, returned or given', async () => {
    const file = moduleOf(`
      const model = (modelId) => ({ specificationVersion: 'v3', provider: 'mine', modelId, supportedUrls: {}, doStream: () => {} });
      const provider = { languageModel: model };
      export default { one: model, two: () => provider, three: provider };`);
    const models = createModels({ providers: await loadProviders(file) });
    for (const name of ['one', 'two', 'three']) {
      expect(models.resolve(`${name}/small`).model).toMatchObject({ modelId: 'small', specificationVersion: 'v4' });
    }
    expect(models.list()).toEqual(['one/*', 'two/*', 'three/*', 'rehearsal/site-builder']);
  });

  it.each([
    ['no default export', 'export const mine = () => null', /expected \{ name: \(model\) => .* as the default export/],
    ['a name with a slash', `export default { 'a/b': () => null }`, /provider "a\/b": expected a name without/],
    ['no function', `export default { mine: 'gpt-5' }`, /provider "mine": expected a function of the model’s name/],
    ['a module that throws', 'throw new Error("no luck")', /cannot be loaded: no luck/],
  ])('H9 %s is an error that names the module and the problem', async (_name, source, message) => {
    const file = moduleOf(source);
    await expect(loadProviders(file)).rejects.toThrow(message);
    await expect(loadProviders(file)).rejects.toThrow(file);
  });

  it.each([
    ['throws', () => throws('unknown model'), /the provider "mine" has no model "x": unknown model/],
    ['returns no model', () => 'gpt-5' as never, /the provider "mine" is not usable: expected a function of/],
    ['is asynchronous', () => Promise.resolve({}) as never, /the provider "mine" is not usable/],
  ])('H9 a default model whose provider %s is named at the start', (_name, mine, message) => {
    const models = createModels({ providers: { mine }, defaultModel: 'mine/x' });
    expect(() => requireDefaultModels([siteBuilder], models)).toThrow(message);
    expect(() => requireDefaultModels([siteBuilder], models)).toThrow('PERDURE_MODEL, the default model: expected');
  });

  it('H9 an agent whose model nobody can resolve is named at the start, with what is configured', () => {
    expect(() => catalogOf({ agents: [{ ...siteBuilder, model: 'none/x' }], models: createModels({}) })).toThrow(
      'agent "site-builder": model: expected a model that can be resolved; ' +
        'the model "none/x" is not configured; configured: rehearsal/site-builder',
    );
  });

  it('U4 X5 the limit of a conversation is where it is compacted, or else the longest input, also of a model that is not offered', () => {
    const agents = [
      siteBuilder,
      { ...siteBuilder, id: 'early', compaction: { compact_at: 0.5, reserve_tokens: 28_000 } },
      { ...siteBuilder, id: 'by-hand', compaction: { auto: false } },
      { ...siteBuilder, id: 'brief', max_output_tokens: 4_000 },
    ];
    const catalog = {
      'openai/known': { context_limit: 400_000, max_input: 272_000, max_output: 128_000 },
      'openai/wordy': { context_limit: 128_000, max_output: 50_000 },
    };
    const models = createModels({ openaiBaseUrl: 'http://127.0.0.1:1', catalog });
    const { limitOf } = catalogOf({ agents, models }).models;
    const limits = (ref: string) =>
      ['site-builder', 'early', 'by-hand', 'brief', 'gone'].map((id) => limitOf!(ref, id));
    expect(limits('openai/known')).toEqual([272_000, 136_000, 272_000, 272_000, undefined]);
    expect(limits('openai/unknown')).toEqual([119_808, 50_000, 128_000, 119_808, undefined]);
    // More than the usual reserve: the provider is told of it, unless the agent has a limit.
    expect(limits('openai/wordy')).toEqual([78_000, 39_000, 128_000, 108_000, undefined]);
    expect(limits('none/x')).toEqual([undefined, undefined, undefined, undefined, undefined]);
  });
});

describe('agents', () => {
  it('H9 without a module the reference agent is used', async () => {
    const agents = await loadAgents(undefined, [siteBuilder]);
    expect([agents.default, agents.list(), agents.get('site-builder')]).toEqual([
      siteBuilder,
      [siteBuilder],
      siteBuilder,
    ]);
  });

  it('H9 the first of a module’s array is the default', async () => {
    const agents = await loadAgents(moduleOf(`export default [${agent('one')}, ${agent('two')}]`), [siteBuilder]);
    expect(agents.default.id).toBe('one');
    expect(agents.get('two').id).toBe('two');
  });

  it('H9 a module anywhere on disk can import `perdure`', () => {
    const file = moduleOf(`import { defineAgent } from 'perdure'; import { PHASES } from 'perdure/domain';
      export default [defineAgent({ ...${agent('mine')}, description: PHASES[0] })];`);
    // In a separate process, because the test runner resolves imports differently.
    const script = `import { loadAgents } from ${JSON.stringify(path.join(import.meta.dirname, '../../agent/loading/agent-registry.ts'))};
      const { default: mine } = await loadAgents(${JSON.stringify(file)}, []);
      console.log(mine.id, mine.description);`;
    const printed = execFileSync(process.execPath, ['--input-type=module', '--eval', script], { encoding: 'utf8' });
    expect(printed).toBe('mine chatting\n');
  });

  it.each([
    ['no default export', 'export const agents = []', /expected an array of .* as the default export/],
    ['an empty array', 'export default []', /at least one agent/],
    ['a bad agent', `export default [${agent('a', ', limits: { steps: -1 }')}]`, /agent "a": limits\.steps/],
    ['an id twice', `export default [${agent('a')}, ${agent('a')}]`, /agent "a": id: used twice/],
    ['a module that throws', 'throw new Error("no luck")', /cannot be loaded: no luck/],
    ['a module that throws a text', 'throw "no luck"', /cannot be loaded: no luck/],
    [
      'a tool with a bad schema',
      `import { z } from 'zod';
       const tool = { name: 't', description: 'd', input: z.array(z.string()), execute: () => null };
       export default [${agent('a')}, { ...${agent('b')}, tools: [tool] }]`,
      /agent "b": tools\.0\.input: expected the schema of an object/,
    ],
  ])('H9 %s is an error that names the module and the problem', async (_name, source, message) => {
    const file = moduleOf(source);
    await expect(loadAgents(file, [siteBuilder])).rejects.toThrow(message);
    await expect(loadAgents(file, [siteBuilder])).rejects.toThrow(file);
  });

  it('X7 the summarizer is an agent of mode subagent, which is found by its id but not offered to users', () => {
    const summarizing = { ...siteBuilder, compaction: { summarizer: 'short' } };
    const short = { ...siteBuilder, id: 'short', mode: 'subagent' as const };
    const agents = agentRegistry([short, summarizing]);
    expect(agents.list().map(({ id }) => id)).toEqual([siteBuilder.id]);
    expect(agents.default.id).toBe(siteBuilder.id);
    expect(agents.get('short').mode).toBe('subagent');
    expect(() => agentRegistry([summarizing])).toThrow('compaction.summarizer: expected the id of an agent');
    expect(() => agentRegistry([short])).toThrow('expected at least one agent of mode "primary"');
  });

  it('X7 a summarizer whose model nobody can resolve is refused at the start by its name', () => {
    const summarizing = { ...siteBuilder, compaction: { summarizer: 'short' } };
    const short = { ...siteBuilder, id: 'short', mode: 'subagent' as const, prompt: 'Summarize.', model: 'none/x' };
    expect(() => requireDefaultModels(agentRegistry([summarizing, short]).all(), createModels({}))).toThrow(
      'agent "short": model: expected a model that can be resolved; the model "none/x" is not configured; configured: ',
    );
  });

  it('P2 mode says who may use an agent', () => {
    const of = (id: string, mode: 'primary' | 'subagent' | 'all') => ({ ...siteBuilder, id, mode });
    const agents = agentRegistry([of('s', 'subagent'), of('a', 'all'), of('p', 'primary')]);
    expect(agents.list().map(({ id }) => id)).toEqual(['a', 'p']);
    expect(agents.default.id).toBe('a');
    const calling = (id: string) =>
      agentRegistry([of(id, 'all'), { ...of('p', 'primary'), subagents: ['s', 'a', id] }]);
    expect(() => calling('x')).toThrow('agent "p": subagents.0: there is no agent "s"');
  });

  it('P4 subagents are offered by the tool `task`; unknown ones and primary ones are refused with the field', () => {
    const other = { ...siteBuilder, id: 'other', mode: 'subagent' as const, description: 'Reads much' };
    const calling = (...subagents: string[]) => agentRegistry([{ ...siteBuilder, subagents }, other]);
    const { tools } = calling('other').default;
    expect(tools.at(-1)).toMatchObject({
      name: 'task',
      description: expect.stringContaining('- other: Reads much') as string,
    });
    expect(calling().default.tools).toEqual(siteBuilder.tools);
    // As a host does that is given the agents of another registry.
    expect(agentRegistry(calling('other').all()).default.tools).toHaveLength(tools.length);
    expect(() => calling('nobody')).toThrow('agent "site-builder": subagents.0: there is no agent "nobody"');
    expect(() => calling('other', 'other')).toThrow('subagents.1: "other" is listed twice');
    expect(() => calling('other', 'site-builder')).toThrow(
      'subagents.1: expected an agent of mode "subagent" or "all", and "site-builder" is "primary"',
    );
    const own = { ...siteBuilder, subagents: ['other'], tools: [{ ...siteBuilder.tools[0], name: 'task' }] };
    expect(() => agentRegistry([own, other])).toThrow('tools: the name "task" is that of the tool for subagents');
  });

  it('P4 P3 rules may name the tools of all agents that can be called, and no others', () => {
    const [plain] = siteBuilder.tools;
    const of = (id: string, subagents: string[], name: string) => {
      const mode = id === 'top' ? ('primary' as const) : ('subagent' as const);
      return { ...siteBuilder, id, mode, subagents, tools: [{ ...plain, name }] };
    };
    const made = (permission: string) =>
      agentRegistry([
        {
          ...of('top', ['middle'], 'own'),
          permissions: [{ permission, pattern: '*', action: 'deny' as const }],
        },
        of('middle', ['low', 'middle'], 'between'),
        of('low', [], 'below'),
        of('other', [], 'elsewhere'),
      ]);
    for (const name of ['own', 'task', 'between', 'below']) expect(made(name).default.permissions).toHaveLength(1);
    expect(() => made('elsewhere')).toThrow(
      'agent "top": permissions.0.permission: expected the name of one of its tools (own, ',
    );
  });

  it('H9 a missing module is named', async () => {
    await expect(loadAgents('/nowhere/agents.mjs', [siteBuilder])).rejects.toThrow(
      '/nowhere/agents.mjs cannot be loaded',
    );
  });

  it('H9 an unknown agent is AgentNotConfigured, with the configured ones', () => {
    expect(() => agentRegistry([siteBuilder]).get('nobody')).toThrow(
      expect.objectContaining({
        code: 'AgentNotConfigured',
        message: 'there is no agent "nobody"; configured: site-builder',
      }),
    );
  });

  it('P2 a field without effect is refused by name where agents are given as objects', () => {
    const charging = { ...siteBuilder, headless: true };
    const expected = 'agent "site-builder": headless: not supported yet';
    expect(() => agentRegistry([charging])).toThrow(expected);
    expect(() => memorySession({ agent: charging, workspaceRoot: '.' })).toThrow(expected);
  });
});
