import { type JSONSchema7, jsonSchema } from 'ai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { defineTool, type ToolContext, type ToolDefinition } from '../definition/define.ts';
import { type InputSchema, toolJsonSchema } from '../definition/tool-json-schema.ts';
import { memorySession, memoryToolContext } from '../memory/memory-session.ts';
import { executeTool, planTool, type ToolResult } from './execute-tool.ts';

const session = memorySession({ agent: siteBuilder, workspaceRoot: '.' });

function contextOf(signal = new AbortController().signal): ToolContext {
  return memoryToolContext(session, { tool: 'try_it', toolCallId: 'call_1', signal, progress: () => {} }).ctx;
}

type Executed = ToolDefinition & Required<Pick<ToolDefinition, 'execute'>>;

function toolOf(execute: Executed['execute'], input: InputSchema = z.object({})): Executed {
  return defineTool({ name: 'try_it', description: 'Tries.', input, execute });
}

async function outcomeOf(tool: Executed, input: unknown = {}, maxOutputBytes = 1_000): Promise<ToolResult> {
  const plan = await planTool(tool, input);
  return plan.ok ? executeTool(tool, plan.input, contextOf(), { maxOutputBytes }) : plan;
}

describe('a tool', () => {
  it('P5 gets its parsed input, and returns JSON', async () => {
    const tool = toolOf(
      (input) => ({ got: input }),
      z.object({ n: z.string().transform(Number), d: z.boolean().default(true) }),
    );
    expect(await outcomeOf(tool, { n: '7' })).toEqual({ ok: true, output: { got: { n: 7, d: true } } });
  });

  it('P5 invalid input is an error that names the field', async () => {
    const tool = toolOf(() => null, z.object({ at: z.object({ x: z.number() }) }));
    const outcome = await outcomeOf(tool, { at: { x: 'left' } });
    expect(outcome).toMatchObject({
      ok: false,
      errorText: expect.stringMatching(/"try_it" is not right: at\.x: .*number/),
    });
  });

  it('P5 may have a JSON Schema: what the model sends is checked by it, and errors name the field', async () => {
    const schema: JSONSchema7 & Record<string, unknown> = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: { at: { $ref: '#/definitions/point' }, name: { type: 'string', minLength: 2 } },
      required: ['at'],
      additionalProperties: false,
      definitions: { point: { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] } },
    };
    for (const input of [schema, jsonSchema(schema)]) {
      const tool = toolOf((given) => ({ given }), input);
      expect(toolJsonSchema(tool)).toMatchObject({ properties: { at: { $ref: '#/definitions/point' } } });
      expect(await outcomeOf(tool, { at: { x: 1 }, name: 'ab' })).toEqual({
        ok: true,
        output: { given: { at: { x: 1 }, name: 'ab' } },
      });
      for (const [wrong, message] of [
        [{ at: { x: 'left' } }, /"try_it" is not right: at\.x: .*number/],
        [{}, /"at"/],
        [{ at: { x: 1 }, name: 'a' }, /name: /],
        [{ at: { x: 1 }, more: 1 }, /more/],
      ] as const)
        expect(await outcomeOf(tool, wrong)).toEqual({ ok: false, errorText: expect.stringMatching(message) });
    }
  });

  it('P5 a check of its own that `jsonSchema` was given follows, and what it returns is the input', async () => {
    const input = jsonSchema<{ n: number }>(
      { type: 'object', properties: { n: { type: 'string' } } },
      {
        validate: (value) => {
          const n = Number((value as { n: string }).n);
          return Number.isNaN(n) ? { success: false, error: new Error('no number') } : { success: true, value: { n } };
        },
      },
    );
    const tool = toolOf((given) => given, input);
    expect(await outcomeOf(tool, { n: '7' })).toEqual({ ok: true, output: { n: 7 } });
    expect(await outcomeOf(tool, { n: 'x' })).toMatchObject({
      ok: false,
      errorText: expect.stringContaining('no number'),
    });
    expect(await outcomeOf(tool, { n: 7 })).toMatchObject({ ok: false, errorText: expect.stringContaining('n: ') });
  });

  it('P5 the model sees the message of a thrown error, cleaned and capped, without its stack', async () => {
    expect(await outcomeOf(toolOf(() => Promise.reject(new Error('no\0 luck'))))).toEqual({
      ok: false,
      errorText: 'no\uFFFD luck',
    });
    expect(
      await outcomeOf(
        toolOf(() => {
          throw new Error('');
        }),
      ),
    ).toEqual({ ok: false, errorText: 'Error' });
    const long = await outcomeOf(
      toolOf(() => {
        throw new Error('😀'.repeat(9_000));
      }),
    );
    expect(long.ok ? '' : long.errorText).toHaveLength(4_004);
  });

  it('P5 an output that is not JSON is an error; undefined is null', async () => {
    expect(await outcomeOf(toolOf(() => 1n))).toMatchObject({ ok: false, errorText: expect.stringMatching(/BigInt/) });
    expect(await outcomeOf(toolOf(() => undefined))).toEqual({ ok: true, output: null });
  });

  it('T5 its output is cleaned, keys too', async () => {
    expect(await outcomeOf(toolOf(() => ({ 'a\0': ['\uD83D'] })))).toEqual({
      ok: true,
      output: { 'a\uFFFD': ['\uFFFD'] },
    });
  });

  it('R7 the model gets the beginning of an output above the limit, and the whole is set aside', async () => {
    const text = 'é'.repeat(600);
    const outcome = await outcomeOf(
      toolOf(() => text),
      {},
      101,
    );
    expect(outcome).toEqual({
      ok: true,
      output: `${'é'.repeat(50)}\n[The output is 1200 bytes long; what comes after the first 101 was set aside.]`,
      aside: text,
    });
    const rows = Array.from({ length: 300 }, (_, row) => ({ row }));
    const big = await outcomeOf(
      toolOf(() => rows),
      {},
      64,
    );
    expect(big).toMatchObject({ ok: true, aside: JSON.stringify(rows) });
  });

  it('R4 an abort is thrown, also if the tool catches it', async () => {
    for (const end of [() => Promise.reject(new Error('swallowed')), () => Promise.resolve('done')]) {
      const abort = new AbortController();
      const tool = toolOf(() => {
        abort.abort(new Error('asked to stop'));
        return end();
      });
      const running = executeTool(tool, {}, contextOf(abort.signal), { maxOutputBytes: 100 });
      await expect(running).rejects.toThrow('asked to stop');
    }
  });
});

describe('the plan of a call', () => {
  const plans = (name: string, input: unknown) =>
    planTool(
      siteBuilder.tools.find((tool) => tool.name === name)!,
      input,
    );

  it('S5 build_and_deploy raises start_build at start, in a new project or in the locked one', async () => {
    const raise = { event: 'start_build', at: 'start' };
    expect(await plans('build_and_deploy', { confirm_new_project: true })).toMatchObject({ raise, project: 'new' });
    expect(await plans('build_and_deploy', {})).toMatchObject({ raise, project: 'required' });
  });

  it('S5 todo_complete raises todo_done_build at result for "build" only', async () => {
    expect(await plans('todo_complete', { name: 'build' })).toMatchObject({
      raise: { event: 'todo_done_build', at: 'result' },
      project: null,
    });
    expect(await plans('todo_complete', { name: 'other' })).toMatchObject({ raise: null });
  });

  it('S10 todos belong to a project: without one the model sees an error', async () => {
    const add = siteBuilder.tools.find((tool) => tool.name === 'todo_add')!;
    expect(await outcomeOf(add, { name: 'x' })).toMatchObject({
      ok: false,
      errorText: expect.stringMatching(/no project/),
    });
  });

  it('P5 invalid input is refused before the tool is asked for its transition', async () => {
    expect(await plans('todo_complete', {})).toMatchObject({ ok: false });
  });
});
