import path from 'node:path';
import { z } from 'zod';
import { readSkillFile, type Skill, skillsIn } from './skills.ts';

/** A `ToolDefinition` (agent/definition/define.ts, which imports this file). */
interface SkillTool {
  name: string;
  description: string;
  input: z.ZodObject;
  repeatable: true;
  execute(input: unknown): { text: string; files?: readonly string[] };
}

/** The tools that are made here, with their skills. */
const skillsByTool = new WeakMap<object, readonly Skill[]>();

/** The skills of an agent, from the tool that reads them. */
export function skillsOf({ tools }: { tools: readonly object[] }): readonly Skill[] {
  return tools.flatMap((tool) => skillsByTool.get(tool) ?? []);
}

/**
 * The tools of an agent with skills: its own, and one that reads the skills in the given folders as they are now.
 * @throws {Error} naming the folder or file and what was expected of it
 */
export function withSkillTool<Own extends object>(
  tools: readonly Own[],
  folders: readonly string[],
): (Own | SkillTool)[] {
  const others = tools.filter((tool) => !skillsByTool.has(tool));
  const skills = folders.flatMap((folder) => {
    if (!path.isAbsolute(folder)) throw new Error(`"${folder}": expected an absolute path`);
    return skillsIn(folder);
  });
  const names = skills.map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new Error(`the name "${twice}" is used twice`);
  return skills.length === 0 ? others : [...others, skillTool(skills)];
}

/** The tool `skill`; there is at least one skill. */
function skillTool(skills: readonly Skill[]): SkillTool {
  const byName = new Map(skills.map((skill) => [skill.name, skill]));
  const input = z.object({
    name: z.enum([...byName.keys()]).describe('The name of the skill'),
    file: z.string().optional().describe("One of the skill's other files; without it, the skill's own text is read"),
  });
  const tool: SkillTool = {
    name: 'skill',
    description: 'Reads a skill: how to do something that this skill describes. Read it before you do that.',
    input,
    repeatable: true,
    execute: (given) => {
      const { name, file } = input.parse(given);
      const skill = byName.get(name);
      if (skill === undefined) throw new Error(`there is no skill "${name}"`);
      if (file !== undefined) return { text: readSkillFile(skill, file) };
      return { text: skill.body, ...(skill.files.length > 0 && { files: skill.files }) };
    },
  };
  skillsByTool.set(tool, skills);
  return tool;
}
