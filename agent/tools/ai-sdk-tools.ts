import { InvalidToolInputError, jsonSchema, NoSuchToolError, type Tool, tool as sdkTool, type ToolSet } from 'ai';
import { cleanText } from '../../domain/text.ts';
import type { ToolDefinition } from '../definition/define.ts';
import type { Issue } from '../definition/json-schema.ts';
import { parseToolInput, toolJsonSchema } from '../definition/tool-json-schema.ts';
import { inputErrorText } from './execute-tool.ts';

const sets = new WeakMap<readonly ToolDefinition[], ToolSet>();

/** The tools for the AI SDK, without `execute`, because the runtime runs them. Cached per list. */
export function aiSdkTools(tools: readonly ToolDefinition[]): ToolSet {
  const known = sets.get(tools);
  if (known) return known;
  const set = Object.fromEntries(tools.map((definition) => [definition.name, asSdkTool(definition)]));
  sets.set(tools, set);
  return set;
}

function asSdkTool(definition: ToolDefinition): Tool {
  const inputSchema = jsonSchema(toolJsonSchema(definition), {
    validate: async (value) => {
      const parsed = await parseToolInput(definition, value);
      // Return the model's input: it is parsed again before the tool runs, so that transforms apply once.
      return parsed.ok ? { success: true, value } : { success: false, error: new SchemaMismatchError(parsed.issues) };
    },
  });
  return sdkTool({ description: definition.description, inputSchema });
}

/** The error that the model sees for an invalid call: unknown tool, invalid JSON, or input that does not match the schema. */
export function invalidCallText(toolName: string, error: unknown, tools: readonly ToolDefinition[]): string {
  if (NoSuchToolError.isInstance(error)) {
    const names = tools.map((tool) => tool.name).join(', ');
    return `There is no tool "${toolName}". ${names ? `The tools are: ${names}.` : 'There are no tools.'}`;
  }
  if (InvalidToolInputError.isInstance(error)) {
    const issues = issuesOf(error.cause);
    if (issues) return cleanText(inputErrorText(toolName, issues));
    const begin = cleanText(error.toolInput.slice(0, 200));
    return `The input of "${toolName}" is not valid JSON. It begins: ${begin}\nWrite it as one JSON object and call the tool again.`;
  }
  return `The call of "${toolName}" could not be read. Call the tool again.`;
}

/** The error that the model sees for a call that it did not complete. */
export function incompleteCallText(toolName: string): string {
  return `The call of "${toolName}" is not complete. Call the tool again.`;
}

/** The error that the model sees for a call within which its output reached its limit. */
export function cutCallText(toolName: string): string {
  return (
    `Your output reached its limit within the call of "${toolName}": it was cut off and did not run. ` +
    'Call the tool again with less at once, in several calls if need be.'
  );
}

/** An input does not match its schema. */
class SchemaMismatchError extends Error {
  readonly issues: readonly Issue[];

  constructor(issues: readonly Issue[]) {
    super('the input does not match the schema');
    this.issues = issues;
  }
}

/** The issues of the error that the SDK's error wraps; undefined: the input is no JSON. */
function issuesOf(error: unknown): readonly Issue[] | undefined {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof SchemaMismatchError) return at.issues;
  return undefined;
}
