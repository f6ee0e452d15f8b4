import { z } from 'zod';
import { TASK_TOOL } from '../../domain/task-tool.ts';
import type { AgentDefinition, ToolDefinition } from '../definition/define.ts';

/** What a model asks of a subagent. */
export interface TaskRequest {
  /** The subagent's id. */
  agent: string;
  prompt: string;
  background: boolean;
}

/** How a subagent's session has ended. */
export interface TaskResult {
  session_id: string;
  agent: string;
  /** Of its last turn. */
  state: 'finished' | 'aborted' | 'error' | 'cancelled' | 'erased';
  code: string | null;
  message: string | null;
  /** What it said after its last tool call. */
  text: string;
}

/** The tools that are made here. */
const taskTools = new WeakSet<object>();

export function isTaskTool(tool: object): boolean {
  return taskTools.has(tool);
}

/** The tools of an agent with subagents: its own, and one that calls these. */
export function withTaskTool(agent: AgentDefinition, subagents: readonly AgentDefinition[]): AgentDefinition {
  const others = agent.tools.filter((tool) => !isTaskTool(tool));
  return { ...agent, tools: [...others, taskTool(subagents)] };
}

function taskTool(subagents: readonly AgentDefinition[]): ToolDefinition {
  const tool: ToolDefinition = {
    name: TASK_TOOL,
    description: [
      'Hands work to another agent, which knows nothing of this conversation but the prompt, and works in the same workspace.',
      'Its answer is the output; in the background, the answer comes as a message later, and others can be called meanwhile.',
      'The agents:',
      ...subagents.map(({ id, description }) => `- ${id}: ${description}`),
    ].join('\n'),
    input: z.object({
      agent: z.enum(subagents.map(({ id }) => id)).describe('The id of the agent'),
      prompt: z.string().min(1).describe('Everything that the agent has to know'),
      background: z.boolean().optional().describe('Do not wait for the answer'),
    }),
    permission: (input: unknown) => taskRequest(input).agent,
    // A repeat finds the session that the call has opened.
    repeatable: true,
    execute: () => {
      throw new Error('a run in memory has no subagents: do the work yourself');
    },
  };
  taskTools.add(tool);
  return tool;
}

/** A parsed input of the tool. */
export function taskRequest(input: unknown): TaskRequest {
  const { agent, prompt, background = false } = input as Omit<TaskRequest, 'background'> & { background?: boolean };
  return { agent, prompt, background };
}

/** Why a subagent could not be called, for the model. */
export function refusedTaskText(code: 'TooDeep' | 'TooMany', maxSubagents: number): string {
  return code === 'TooDeep'
    ? 'TooDeep: this session was itself called through five others, so it cannot call more agents. Do the work yourself.'
    : `TooMany: this turn has called ${maxSubagents} agents, which is the most. Do the rest yourself.`;
}

/** What went wrong with a subagent, for the model; undefined: it has finished. */
export function taskError({ state, code, message }: TaskResult): string | undefined {
  switch (state) {
    case 'finished':
      return undefined;
    case 'error':
      return `The agent failed (${code ?? 'Internal'}): ${message ?? 'for an unknown reason'}`;
    case 'erased':
      return 'The session of the agent was erased by the user.';
    default:
      return 'aborted by the user';
  }
}

/** The message with the result of a subagent in the background. */
export function taskMessageText(result: TaskResult): string {
  const about = `agent "${result.agent}", session ${result.session_id}`;
  const error = taskError(result);
  return error === undefined ? `Result of ${about}:\n\n${result.text}` : `No result of ${about}: ${error}`;
}
