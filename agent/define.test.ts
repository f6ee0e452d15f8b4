import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  type AgentDefinition,
  DEFAULT_LIMITS,
  defineAgent,
  defineTool,
  limitsOf,
  type ToolDefinition,
} from './define.ts';

const tool: ToolDefinition = { name: 'look', description: 'Looks.', input: z.object({}), execute: () => null };
const agent: AgentDefinition = {
  id: 'a',
  description: 'An agent.',
  mode: 'primary',
  prompt: 'Be kind.',
  tools: [tool],
};

describe('definitions', () => {
  it('P2 valid definitions are returned unchanged', () => {
    expect(defineAgent(agent)).toBe(agent);
    expect(defineTool(tool)).toBe(tool);
  });

  it.each([
    ['id', { id: 'no spaces' }, /agent "no spaces": id: expected 1 to 64/],
    ['mode', { mode: 'secret' }, /agent "a": mode: /],
    ['model', { model: 'gpt' }, /model: expected provider\/model/],
    ['limits', { limits: { steps: 0 } }, /limits\.steps: /],
    ['tools', { tools: [{ ...tool, input: {} }] }, /tools\.0\.input: expected a zod schema/],
    ['tools', { tools: [tool, tool] }, /the name "look" is used twice/],
    ['tool of it', { tools: [{ ...tool, protected: true }] }, /agent "a": tools\.0\.protected: not supported yet/],
    ['unknown field', { temprature: 1 }, /temprature: no such field/],
  ])('P2 an invalid %s is named', (_field, wrong, message) => {
    expect(() => defineAgent({ ...agent, ...wrong } as AgentDefinition)).toThrow(message);
  });

  it.each([
    ['permissions', [{ permission: 'charge', pattern: '*', action: 'deny' }]],
    ['compaction', { auto: true }],
    ['inspectable', false],
    ['subagents', ['b']],
    ['mcp', []],
    ['headless', true],
    ['initiative', {}],
    ['instructions', 'Be brief.'],
  ])('P2 %s, which has no effect yet, is refused by name', (field, value) => {
    expect(() => defineAgent({ ...agent, [field]: value })).toThrow(`agent "a": ${field}: not supported yet`);
  });

  it.each(['subagent', 'all'])('P2 mode %s is refused until there are subagents', (mode) => {
    expect(() => defineAgent({ ...agent, mode } as unknown as AgentDefinition)).toThrow(/mode: .*not supported yet/);
  });

  it.each([
    ['permission', () => 'x'],
    ['protected', true],
  ])('P5 %s, which has no effect yet, is refused by name', (field, value) => {
    expect(() => defineTool({ ...tool, [field]: value })).toThrow(`tool "look": ${field}: not supported yet`);
  });

  it.each([
    ['name', { name: 'a/b' }, /tool "a\/b": name: expected 1 to 64/],
    ['execute', { execute: 'x' }, /tool "look": execute: expected a function/],
    ['raises', { raises: { event: 'jump', at: 'start' } }, /tool "look": raises/],
    ['input', { input: z.string() }, /tool "look": input: expected the schema of an object/],
  ])('P5 an invalid %s is named', (_field, wrong, message) => {
    expect(() => defineTool({ ...tool, ...wrong } as ToolDefinition)).toThrow(message);
  });

  it('P5 the schema of the input determines the type of execute', () => {
    const named = { name: 'look', description: 'Looks.' };
    const input = z.object({ n: z.string().transform(Number) });
    const shown = defineTool({ ...named, input, execute: ({ n }) => n.toFixed(2) });
    expect(shown.name).toBe('look');
    // @ts-expect-error: there is no such field
    defineTool({ ...named, input, execute: (given) => given.m !== 1 });
    // @ts-expect-error: a number is no text
    defineTool({ ...named, input, project: ({ n }) => n, execute: () => null });
  });

  it('R7 limits that an agent does not set have their defaults', () => {
    expect(limitsOf(agent)).toEqual(DEFAULT_LIMITS);
    expect(limitsOf({ ...agent, limits: { steps: 3 } })).toEqual({ ...DEFAULT_LIMITS, steps: 3 });
    expect(DEFAULT_LIMITS).toEqual({
      steps: 50,
      tokens: 1_000_000,
      wall_clock_ms: 1_800_000,
      tool_output_bytes: 32_768,
    });
  });
});
