/** The name of the tool with which an agent calls its subagents. */
export const TASK_TOOL = 'task';
