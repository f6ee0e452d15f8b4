// What the compiler accepts of a tool and an agent, checked by `npm run check`. Nothing that is refused here is executed.
import { describe, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool, type ToolContext, type ToolDefinition } from '../../agent/index.ts';

const named = { name: 'look', description: 'Looks.' } as const;
const input = z.object({ city: z.string(), days: z.string().transform(Number), unit: z.enum(['C', 'F']).optional() });
type Parsed = { city: string; days: number; unit?: 'C' | 'F' | undefined };

describe('defineTool', () => {
  it('P5 the schema of the input types what execute, raises, project and permission are given', () => {
    defineTool({
      ...named,
      input,
      raises: (given) => {
        expectTypeOf(given).toEqualTypeOf<Parsed>();
        return { event: 'start_build', at: 'start' };
      },
      project: (given) => {
        expectTypeOf(given).toEqualTypeOf<Parsed>();
        return 'new';
      },
      permission: (given) => {
        expectTypeOf(given).toEqualTypeOf<Parsed>();
        return given.city;
      },
      execute: (given, ctx) => {
        expectTypeOf(given).toEqualTypeOf<Parsed>();
        expectTypeOf(ctx).toEqualTypeOf<ToolContext>();
        return null;
      },
    });
  });

  it('P5 a tool keeps its name, its schema and what execute returns', () => {
    const look = defineTool({ ...named, input, execute: async ({ days }) => ({ degrees: days * 2 }) });
    type Output = { degrees: number };
    expectTypeOf(look).toExtend<ToolDefinition<'look', typeof input, Output>>();
    expectTypeOf(look.execute).parameters.toEqualTypeOf<[input: Parsed, ctx: ToolContext]>();
    expectTypeOf(look.execute).returns.toEqualTypeOf<Output | Promise<Output>>();
  });

  it('P5 a tool that the page carries out has no execute to call', () => {
    const shown = defineTool({ ...named, input, output: z.object({ seen: z.boolean() }), timeout: 1_000 });
    expectTypeOf(shown.execute).extract<undefined>().toEqualTypeOf<undefined>();
  });

  it('P5 fields that are unknown, missing or of another type are refused', () => {
    const execute = () => null;
    const refused = () => {
      // @ts-expect-error: no such field of the input
      defineTool({ ...named, input, execute: (given) => given.town !== 'Bern' });
      // @ts-expect-error: no such field of a tool
      defineTool({ ...named, input, execute, repeatble: true });
      // @ts-expect-error: without a name
      defineTool({ description: 'Looks.', input, execute });
      // @ts-expect-error: without an input
      defineTool({ ...named, execute });
      // @ts-expect-error: not an event
      defineTool({ ...named, input, execute, raises: { event: 'jump', at: 'start' } });
      // @ts-expect-error: not a time of a transition
      defineTool({ ...named, input, execute, raises: { event: 'publish', at: 'end' } });
      // @ts-expect-error: not what a call can need of a project
      defineTool({ ...named, input, execute, project: () => 'old' });
      // @ts-expect-error: a pattern asks for a text
      defineTool({ ...named, input, execute, permission: ({ days }) => days });
    };
    expectTypeOf(refused).toBeFunction();
  });
});

describe('defineAgent', () => {
  const whole = { id: 'guide', description: 'Shows the way.', mode: 'primary', prompt: 'Be kind.', tools: [] } as const;

  it('P2 id, description, mode, prompt and tools are required', () => {
    type Given = Parameters<typeof defineAgent>[0];
    type Required = { [Name in keyof Given]-?: undefined extends Given[Name] ? never : Name }[keyof Given];
    expectTypeOf<Required>().toEqualTypeOf<'id' | 'description' | 'mode' | 'prompt' | 'tools'>();
  });

  it('P2 an agent keeps the types of its tools', () => {
    const look = defineTool({ ...named, input, execute: () => 1 });
    expectTypeOf(defineAgent({ ...whole, tools: [look] }).tools).toEqualTypeOf<readonly [typeof look]>();
  });

  it('P2 fields that are unknown, missing or of another type are refused', () => {
    const { prompt: _, ...incomplete } = whole;
    const refused = () => {
      // @ts-expect-error: without a prompt
      defineAgent(incomplete);
      // @ts-expect-error: no such field of an agent
      defineAgent({ ...whole, temprature: 1 });
      // @ts-expect-error: no such field of limits
      defineAgent({ ...whole, limits: { step: 1 } });
      // @ts-expect-error: a number is expected
      defineAgent({ ...whole, limits: { steps: '1' } });
      // @ts-expect-error: nobody has this mode
      defineAgent({ ...whole, mode: 'secondary' });
      // @ts-expect-error: no such action of a rule
      defineAgent({ ...whole, permissions: [{ permission: 'look', pattern: '*', action: 'maybe' }] });
      // @ts-expect-error: a prompt is a text
      defineAgent({ ...whole, prompt: () => 5 });
      // @ts-expect-error: a session has no such field
      defineAgent({ ...whole, prompt: (session) => `${session.user !== 'ada'}` });
    };
    expectTypeOf(refused).toBeFunction();
  });
});
