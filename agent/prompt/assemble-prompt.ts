import { createHash } from 'node:crypto';
import { canonicalJson } from '../../domain/canonical-json.ts';
import type { AgentDefinition, ToolDefinition } from '../definition/define.ts';
import { toolJsonSchema } from '../definition/tool-json-schema.ts';
import { skillsOf } from '../skills/skill-tool.ts';
import type { Skill } from '../skills/skills.ts';
import { gitStateOf } from './git-state.ts';
import { projectInstructions, type WrittenByTools } from './instructions.ts';

/** The workspace in prompts: the server's paths are not the model's business. */
export const SHOWN_WORKSPACE = '/workspace';

export interface PromptInput {
  /** With the text of its prompt, from `promptText`. */
  agent: Pick<AgentDefinition, 'tools' | 'instructions'> & { prompt: string };
  /** Absolute path of the folder that the session works in. */
  workspaceRoot: string;
  /** Absolute path of the outermost folder whose instructions are read. */
  boundary: string;
  /** Tells which instruction files are left out because tools wrote them; unset: none. */
  writtenByTools?: WrittenByTools | undefined;
  /** About the initiative that the session has joined; it ends the section of project instructions. */
  initiative?: string;
  /** The day, `yyyy-mm-dd`: the digest and the provider's cached prompt change with it. */
  date: string;
  /** `provider/model`. */
  model: string;
  variant?: string | undefined;
}

export interface AssembledPrompt {
  /** Agent prompt, project instructions, skill index, environment and tool catalog. */
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
 * The prompt of a turn: five sections in a fixed order. The same inputs and files give the same bytes. While nothing changes
 * it takes less than a millisecond (docs/performance.md); in a git repository that is large or has changed, as long as `git status`.
 */
export async function assemblePrompt(input: PromptInput): Promise<AssembledPrompt> {
  const { agent, workspaceRoot, boundary } = input;
  const git = await gitStateOf(workspaceRoot, boundary);
  const sections = [
    agent.prompt.trim(),
    [await instructions(input), input.initiative ?? ''].filter((part) => part !== '').join('\n\n'),
    skillIndex(skillsOf(agent)),
    environment(input, git),
  ];
  const system = systemText(sections);
  const catalog = toolCatalog(agent.tools);
  const body = `${system}\n\n# Tools\n\n${catalog}\n`;
  return {
    sections: [...sections, catalog],
    system,
    toolCatalog: catalog,
    body,
    digest: createHash('sha256').update(body).digest('hex'),
  };
}

function instructions({ agent, workspaceRoot, boundary, writtenByTools }: PromptInput): string | Promise<string> {
  return agent.instructions === false ? '' : projectInstructions(workspaceRoot, boundary, writtenByTools);
}

/** The system text of a prompt's sections. */
export function systemText(sections: readonly string[]): string {
  return sections
    .slice(0, 4)
    .filter((section) => section !== '')
    .join('\n\n');
}

function skillIndex(skills: readonly Skill[]): string {
  if (skills.length === 0) return '';
  const lines = skills.map((skill) => `- ${skill.name}: ${skill.description}`);
  return ['# Skills', '', 'Read a skill with the tool `skill` before you do what it describes.', '', ...lines].join(
    '\n',
  );
}

/** What changes oftenest comes last: providers cache a prompt up to its first difference. */
function environment(input: PromptInput, git: string | undefined): string {
  return [
    '# Environment',
    '',
    `- Platform: ${process.platform}`,
    `- Workspace: ${SHOWN_WORKSPACE}`,
    `- Date: ${input.date}`,
    `- Model: ${input.model}${input.variant ? ` (${input.variant})` : ''}`,
    `- Git: ${git ?? 'not a repository'}`,
  ].join('\n');
}

const catalogs = new WeakMap<readonly ToolDefinition[], string>();

/** The tools as canonical JSON; cached per list. */
export function toolCatalog(tools: readonly ToolDefinition[]): string {
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
