import { createHash } from 'node:crypto';
import { canonicalJson } from '../domain/canonical-json.ts';
import type { AgentDefinition, ToolDefinition } from './define.ts';
import { gitStateOf } from './git-state.ts';
import { projectInstructions } from './instructions.ts';
import { toolJsonSchema } from './tool-schema.ts';

/** An entry of the prompt's skill index. */
export interface SkillEntry {
  name: string;
  /** One line. */
  description: string;
}

export interface PromptInput {
  agent: Pick<AgentDefinition, 'prompt' | 'tools'>;
  /** Absolute path of the folder that the session works in. */
  workspaceRoot: string;
  /** Absolute path of the outermost folder whose instructions are read. */
  boundary: string;
  skills?: readonly SkillEntry[];
  /** The day, `yyyy-mm-dd`: the digest and the provider's cached prompt change with it. */
  date: string;
  /** `provider/model`. */
  model: string;
  variant?: string | undefined;
}

export interface AssembledPrompt {
  /** Agent prompt, project instructions, skill index, environment and tool catalog. Only the environment is session-specific. */
  sections: readonly string[];
  /** The first four sections: the system text. */
  system: string;
  /** Canonical JSON of the tools, which are sent in the provider's own parameter. */
  toolCatalog: string;
  /** All five sections, stored once per digest. */
  body: string;
  /** SHA-256 of `body` in UTF-8, as hex. */
  digest: string;
}

/**
 * The prompt of a turn: five sections in a fixed order. The same inputs and files give the same bytes. Takes less than a
 * millisecond, or a few in a git repository, where `git status` runs.
 */
export async function assemblePrompt(input: PromptInput): Promise<AssembledPrompt> {
  const { agent, workspaceRoot, boundary } = input;
  const git = await gitStateOf(workspaceRoot, boundary);
  const sections = [
    agent.prompt.trim(),
    projectInstructions(workspaceRoot, boundary),
    skillIndex(input.skills ?? []),
    environment(input, git),
  ];
  const system = systemText(sections);
  const toolCatalog = catalogOf(agent.tools);
  const body = `${system}\n\n# Tools\n\n${toolCatalog}\n`;
  return {
    sections: [...sections, toolCatalog],
    system,
    toolCatalog,
    body,
    digest: createHash('sha256').update(body).digest('hex'),
  };
}

/** The system text of a prompt's sections. */
export function systemText(sections: readonly string[]): string {
  return sections
    .slice(0, 4)
    .filter((section) => section !== '')
    .join('\n\n');
}

function skillIndex(skills: readonly SkillEntry[]): string {
  const lines = skills.map((skill) => `- ${skill.name}: ${skill.description}`);
  return lines.length > 0 ? ['# Skills', '', ...lines].join('\n') : '';
}

function environment(input: PromptInput, git: string | undefined): string {
  return [
    '# Environment',
    '',
    `- Platform: ${process.platform}`,
    `- Workspace: ${input.workspaceRoot}`,
    `- Git: ${git ?? 'not a repository'}`,
    `- Date: ${input.date}`,
    `- Model: ${input.model}${input.variant ? ` (${input.variant})` : ''}`,
  ].join('\n');
}

const catalogs = new WeakMap<readonly ToolDefinition[], string>();

function catalogOf(tools: readonly ToolDefinition[]): string {
  const known = catalogs.get(tools);
  if (known !== undefined) return known;
  const entries = tools.map((tool) => ({
    name: tool.name,
    description: tool.description,
    input_schema: toolJsonSchema(tool),
  }));
  const catalog = canonicalJson(entries);
  catalogs.set(tools, catalog);
  return catalog;
}
