import { type InferUITools, jsonSchema, type UIDataTypes, type UIMessage } from 'ai';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { compactionSchema } from './compaction-schema.ts';
import {
  type AgentDefinition,
  DEFAULT_LIMITS,
  defineAgent,
  defineTool,
  limitsOf,
  type ToolDefinition,
  type ToolSetOf,
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
    ['tools', { tools: [{ ...tool, input: 7 }] }, /tools\.0\.input: expected a zod schema/],
    [
      'tool’s schema',
      { tools: [{ ...tool, input: z.string() }] },
      /agent "a": tools\.0\.input: expected the schema of an/,
    ],
    [
      'JSON Schema',
      { tools: [{ ...tool, input: { type: 'object', properties: { at: { type: 'strin' } } } }] },
      /agent "a": tools\.0\.input: expected a valid JSON Schema \(properties: at: type/,
    ],
    ['tools', { tools: [tool, tool] }, /the name "look" is used twice/],
    ['tool of it', { tools: [{ ...tool, protected: 1 }] }, /agent "a": tools\.0\.protected: /],
    ['compaction', { compaction: { compact_at: 2 } }, /compaction\.compact_at: expected a share above 0 and up to 1/],
    ['recovery', { compaction: { smart_recovery: { hope: true } } }, /compaction\.smart_recovery\.hope: no such field/],
    ['initiative', { initiative: 'boss' }, /initiative: expected one of architect, worker/],
    ['unknown field', { temprature: 1 }, /temprature: no such field/],
  ])('P2 an invalid %s is named', (_field, wrong, message) => {
    expect(() => defineAgent({ ...agent, ...wrong } as AgentDefinition)).toThrow(message);
  });

  const share = [0, -0.1, 1.1, Number.NaN, '1'];
  const refused: Record<keyof typeof compactionSchema.shape, unknown[]> = {
    auto: ['no'],
    compact_at: share,
    reserve_tokens: [-1, 0.5, Infinity],
    tail_turns: [0, 1_001, 1.5],
    tail_budget_pct: share,
    split_last_turn: [1],
    prune_at: share,
    prune_min_tokens: [19, 20.5],
    prune_keep: [-1, 1_001],
    retry_on_transient: [-1, 11],
    summarizer_timeout: [99, 600_001],
    summarizer: [7],
    smart_recovery: [true],
  };
  const recoveries = ['prune_tool_outputs', 'chunked_summarize', 'drop_middle'];
  const settings: [string, unknown[]][] = [
    ...Object.entries(refused),
    ...recoveries.map((name): [string, unknown[]] => [`smart_recovery.${name}`, ['no']]),
    ['hope', [true]],
  ];
  it.each(settings)('X5 P2 compaction.%s with a wrong value, or unknown, is refused by name', (name, values) => {
    const [field = '', within] = name.split('.');
    for (const value of values) {
      const compaction = { [field]: within === undefined ? value : { [within]: value } };
      expect(() => defineAgent({ ...agent, compaction }), String(value)).toThrow(`agent "a": compaction.${name}: `);
    }
  });

  it.each([
    ['inspectable', false],
    ['headless', true],
  ])('P2 %s, which has no effect yet, is refused by name', (field, value) => {
    expect(() => defineAgent({ ...agent, [field]: value })).toThrow(`agent "a": ${field}: not supported yet`);
  });

  const allow = { permission: 'look', pattern: '*', action: 'allow' };
  it.each([
    [
      'unknown tool',
      [allow, { ...allow, permission: 'pay' }],
      /permissions\.1\.permission: expected the name of one of/,
    ],
    ['pattern', [{ ...allow, pattern: 'a\\' }], /permissions\.0\.pattern: expected a pattern of characters and \*/],
    ['action', [{ ...allow, action: 'maybe' }], /permissions\.0\.action: expected "allow", "deny" or "ask"/],
    ['pin', [{ ...allow, pinned: 'yes' }], /permissions\.0\.pinned: /],
    ['scope', [{ ...allow, source: 'session' }], /permissions\.0\.source: no such field/],
  ])('P3 a rule with an invalid %s is refused at start', (_what, permissions, message) => {
    expect(() => defineAgent({ ...agent, permissions } as AgentDefinition)).toThrow(message);
  });

  it.each([
    ['repeatable', { repeatable: true }],
    ['raises', { raises: { event: 'start_build', at: 'start' } }],
    ['project', { project: () => 'new' }],
  ])('P5 %s is refused for a tool that the page carries out', (field, more) => {
    const { execute: _, ...page } = tool;
    expect(() => defineTool({ ...page, ...more } as never)).toThrow(
      `tool "look": ${field}: expected only with execute`,
    );
  });

  it('P5 output and timeout are refused for a tool that the worker carries out, and an invalid schema of output for all', () => {
    expect(() => defineTool({ ...tool, timeout: 5 })).toThrow('tool "look": timeout: expected only without execute');
    expect(() => defineTool({ ...tool, output: z.object({}) })).toThrow('output: expected only without execute');
    const { execute: _, ...page } = tool;
    expect(() => defineTool({ ...page, output: { type: 'nonsense' } })).toThrow(
      'tool "look": output: expected a valid schema',
    );
  });

  it.each([
    ['name', { name: 'a/b' }, /tool "a\/b": name: expected 1 to 64/],
    ['execute', { execute: 'x' }, /tool "look": execute: expected a function/],
    ['raises', { raises: { event: 'jump', at: 'start' } }, /tool "look": raises/],
    ['input', { input: z.string() }, /tool "look": input: expected the schema of an object/],
    ['JSON Schema', { input: { type: 'string' } }, /tool "look": input: expected the schema of an object/],
    [
      'pattern',
      { input: { type: 'object', properties: { a: { pattern: '(' } } } },
      /input: expected a valid JSON Schema \(.*a: pattern/,
    ],
    [
      'reference',
      { input: { type: 'object', properties: { a: { $ref: '#/$defs/b' } } } },
      /input: expected a valid JSON Schema \(\$ref: .*"#\/\$defs\/b"\)/,
    ],
    [
      '$schema',
      { input: { $schema: 'http://json-schema.org/draft-04/schema#', type: 'object' } },
      /input: expected a valid JSON Schema \(\$schema: expected draft 6, 7, .*draft-04/,
    ],
    ['promise', { input: jsonSchema(Promise.resolve({})) }, /input: .*not a promise/],
  ])('P5 an invalid %s is named', (_field, wrong, message) => {
    expect(() => defineTool({ ...tool, ...wrong } as ToolDefinition)).toThrow(message);
  });

  it('P5 a JSON Schema that has a type determines the type of execute, too', () => {
    const input = jsonSchema<{ city: string }>({ type: 'object', properties: { city: { type: 'string' } } });
    const named = { name: 'look', description: 'Looks.' };
    const looked = defineTool({ ...named, input, execute: ({ city }) => city });
    expectTypeOf(looked.execute).returns.toEqualTypeOf<string | Promise<string>>();
    defineTool({ ...named, input: { type: 'object' }, execute: (given) => expectTypeOf(given).toBeObject() });
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

  it('P5 a tool keeps its types, and InferUITools works on the tools of an agent', () => {
    const named = { description: 'Looks.', mode: 'primary', prompt: 'Be kind.' } as const;
    const weather = defineTool({
      name: 'weather',
      description: 'The weather.',
      input: z.object({ city: z.string(), days: z.string().transform(Number).default(1) }),
      raises: ({ days }) => (days > 3 ? { event: 'publish', at: 'result' } : null),
      execute: async ({ city, days }) => ({ city, degrees: days * 2 }),
    });
    const dice = defineTool({
      name: 'dice',
      description: 'Throws dice.',
      input: z.object({ count: z.int() }),
      execute: ({ count }) => count * 6,
    });
    const typed = defineAgent({ id: 'typed', ...named, tools: [weather, dice] });
    expectTypeOf<InferUITools<ToolSetOf<typeof typed>>>().toEqualTypeOf<{
      weather: { input: { city: string; days?: string | undefined }; output: { city: string; degrees: number } };
      dice: { input: { count: number }; output: number };
    }>();
    expectTypeOf(weather.name).toEqualTypeOf<'weather'>();
    expectTypeOf(typed).toExtend<AgentDefinition>();
    // An agent without types has the tools of any agent.
    expectTypeOf<InferUITools<ToolSetOf<AgentDefinition>>>().toEqualTypeOf<
      Record<string, { input: unknown; output: unknown }>
    >();
    type Shown = UIMessage<unknown, UIDataTypes, InferUITools<ToolSetOf<typeof typed>>>['parts'][number];
    expectTypeOf<Extract<Shown, { type: 'tool-dice'; state: 'output-available' }>['output']>().toEqualTypeOf<number>();
    // @ts-expect-error: an unknown field of an agent
    expect(() => defineAgent({ id: 'typed', ...named, tools: [], temprature: 1 })).toThrow('no such field');
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
