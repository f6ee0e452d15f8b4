import { mkdir } from 'node:fs/promises';
import { z } from 'zod';
import { defineTool, type ToolContext } from '../../agent/definition/define.ts';
import { listTopFolder, readTextFile, writeTextFile } from './workspace.ts';

/** The todo of the build: completing it moves the session to verifying. */
const BUILD = 'build';

const todoName = z.string().trim().min(1).max(200);
const filePath = z
  .string()
  .min(1)
  .max(512)
  .describe('path relative to the workspace, such as index.html or css/site.css');

function requireProject(ctx: ToolContext): void {
  if (ctx.projectId === null) throw new Error('there is no project yet, and todos belong to a project: build first');
}

export const buildAndDeploy = defineTool({
  name: 'build_and_deploy',
  description:
    'Starts to build the site and adds the todo "build". With confirm_new_project: true it makes a new project first; do that only when the user wants a new one. Without it, it builds in the project that the session has.',
  input: z.object({
    confirm_new_project: z.boolean().optional().describe('true: the user wants a new project'),
    name: z.string().trim().min(1).max(100).optional().describe('a short name of the site'),
  }),
  // Safe to repeat after a crash: project and phase are already set.
  repeatable: true,
  raises: { event: 'start_build', at: 'start' },
  project: (input) => (input.confirm_new_project ? 'new' : 'required'),
  async execute(input, ctx) {
    await mkdir(ctx.workspaceRoot, { recursive: true });
    ctx.todos.add(BUILD);
    const files = await listTopFolder(ctx.workspaceRoot);
    return { project_id: ctx.projectId, ...(input.name && { name: input.name }), todo: BUILD, files };
  },
});

export const todoAdd = defineTool({
  name: 'todo_add',
  description: 'Adds something to do to the project’s list.',
  input: z.object({ name: todoName }),
  repeatable: true,
  async execute({ name }, ctx) {
    requireProject(ctx);
    ctx.todos.add(name);
    return { todos: await ctx.todos.list() };
  },
});

export const todoComplete = defineTool({
  name: 'todo_complete',
  description:
    'Marks something on the project’s list as done. Complete "build" when the site is built: then the user looks at it and publishes or reverts.',
  input: z.object({ name: todoName }),
  repeatable: true,
  raises: ({ name }) => (name === BUILD ? { event: 'todo_done_build', at: 'result' } : null),
  async execute({ name }, ctx) {
    requireProject(ctx);
    await ctx.todos.complete(name);
    return { todos: await ctx.todos.list() };
  },
});

export const writeFile = defineTool({
  name: 'write_file',
  description: 'Writes a text file of the site, creating its folders. Replaces an existing file.',
  input: z.object({ path: filePath, content: z.string() }),
  permission: ({ path }) => path,
  repeatable: true,
  async execute(input, ctx) {
    const bytes = await writeTextFile(ctx.workspaceRoot, input.path, input.content);
    return { path: input.path, bytes };
  },
});

export const readFile = defineTool({
  name: 'read_file',
  description: 'Reads a text file of the site.',
  input: z.object({ path: filePath }),
  repeatable: true,
  execute: (input, ctx) => readTextFile(ctx.workspaceRoot, input.path),
});
