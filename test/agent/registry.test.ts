import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { memorySession } from '../../agent/memory.ts';
import { agentRegistry, loadAgents } from '../../agent/registry.ts';

const folder = mkdtempSync(path.join(os.tmpdir(), 'perdure-agents-'));
let files = 0;

function moduleOf(source: string): string {
  const file = path.join(folder, `agents-${++files}.mjs`);
  writeFileSync(file, source);
  return file;
}

const agent = (id: string, more = '') =>
  `{ id: '${id}', description: 'd', mode: 'primary', prompt: 'p', tools: [] ${more}}`;

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
    const script = `import { loadAgents } from ${JSON.stringify(path.join(import.meta.dirname, '../../agent/registry.ts'))};
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
  ])('H9 %s is an error that names the module and the problem', async (_name, source, message) => {
    const file = moduleOf(source);
    await expect(loadAgents(file, [siteBuilder])).rejects.toThrow(message);
    await expect(loadAgents(file, [siteBuilder])).rejects.toThrow(file);
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
    const charging = { ...siteBuilder, permissions: [{ permission: 'charge', pattern: '*', action: 'deny' }] };
    const expected = 'agent "site-builder": permissions: not supported yet';
    expect(() => agentRegistry([charging])).toThrow(expected);
    expect(() => memorySession({ agent: charging, workspaceRoot: '.' })).toThrow(expected);
  });
});
