import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { byteLength, cleanText, headOf, textOfUtf8 } from '../../domain/text.ts';

// Skills in the format of agentskills.io: a folder with a file SKILL.md, whose front matter has a name and a description, and
// with other files that its text refers to. The prompt has names and descriptions; a tool reads the rest when it is needed.

/** A skill of an agent. */
export interface Skill {
  name: string;
  /** One line. */
  description: string;
  /** The text of SKILL.md after its front matter. */
  body: string;
  /** Absolute path of its folder. */
  folder: string;
  /** Paths of its other files within the folder, with "/". */
  files: readonly string[];
}

const MAX_FILES = 200;
const MAX_DEPTH = 4;
const MAX_BODY_BYTES = 64 * 1024;

const NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
const frontMatter = z.object({
  name: z
    .string('expected a text')
    .max(64, 'expected at most 64 characters')
    .regex(NAME, 'expected lower-case letters and digits, with single hyphens between them'),
  description: z
    .string('expected a text')
    .trim()
    .min(1, 'expected a text')
    .max(1_024, 'expected at most 1,024 characters'),
});

/**
 * The skills in a folder, by name: its subfolders, also linked ones, that have a SKILL.md.
 * @throws {Error} naming the file and what was expected of it
 */
export function skillsIn(folder: string): Skill[] {
  return namesIn(folder).flatMap((name) => {
    const file = path.join(folder, name, 'SKILL.md');
    return statSync(file, { throwIfNoEntry: false })?.isFile() === true ? [readSkill(file, name)] : [];
  });
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch (cause) {
    throw new Error(`${folder}: expected a folder with skills that can be read`, { cause });
  }
}

function readSkill(file: string, folderName: string): Skill {
  const text = textOfUtf8(readFileSync(file));
  if (text === undefined) throw new Error(`${file}: expected a text in UTF-8`);
  const [, yaml = '', body = ''] = /^---\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n([\s\S]*))?$/.exec(text) ?? [];
  const { name, description } = parsed(file, yaml);
  if (name !== folderName) throw new Error(`${file}: name: expected "${folderName}", the name of its folder`);
  const folder = path.dirname(file);
  return {
    name,
    // A line of the prompt's index.
    description: cleanText(description).replaceAll(/\s+/g, ' '),
    body: textOf(body),
    folder,
    files: filesIn(folder).filter((each) => each !== 'SKILL.md'),
  };
}

function parsed(file: string, yaml: string): z.output<typeof frontMatter> {
  let value: unknown;
  try {
    value = parse(yaml);
  } catch (cause) {
    throw new Error(`${file}: expected YAML between two lines of "---"`, { cause });
  }
  if (typeof value !== 'object' || value === null) {
    throw new Error(`${file}: expected a beginning with name and description between two lines of "---"`);
  }
  const result = frontMatter.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new Error(`${file}: ${issue?.path.join('.')}: ${issue?.message}`);
}

/** Paths of regular files; links are not followed, hidden files are left out. */
function filesIn(folder: string, below = '', depth = 1): string[] {
  const entries = readdirSync(path.join(folder, below), { withFileTypes: true });
  return entries
    .filter(({ name }) => !name.startsWith('.'))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const file = below === '' ? entry.name : `${below}/${entry.name}`;
      if (entry.isFile()) return [file];
      return entry.isDirectory() && depth < MAX_DEPTH ? filesIn(folder, file, depth + 1) : [];
    })
    .slice(0, MAX_FILES);
}

/**
 * The text of one of a skill's files.
 * @throws {Error} for another file, and for one that cannot be read
 */
export function readSkillFile({ name, folder, files }: Skill, file: string): string {
  if (!files.includes(file)) {
    const known = files.length > 0 ? `its files are ${files.join(', ')}` : 'it has no other files';
    throw new Error(`the skill "${name}" has no file "${file}"; ${known}`);
  }
  const bytes = bytesOf(path.join(folder, file));
  if (bytes === undefined) throw new Error(`"${file}" cannot be read`);
  const text = bytes.includes(0) ? undefined : textOfUtf8(bytes);
  if (text === undefined) throw new Error(`"${file}" is not a text`);
  return textOf(text);
}

/** Undefined if it cannot be read: the error would have a path of the server. */
function bytesOf(file: string): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}

function textOf(text: string): string {
  const clean = cleanText(text).trim();
  if (byteLength(clean) <= MAX_BODY_BYTES) return clean;
  return `${headOf(clean, MAX_BODY_BYTES)}\n[The rest is left out: the file is longer than ${MAX_BODY_BYTES} bytes.]`;
}
