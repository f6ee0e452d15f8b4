// Reads the Dockerfile (stages and steps) and lists the files of its build context.
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Ignore } from '@balena/dockerignore';
import { Copy, DockerfileParser, From, type Instruction, JSONInstruction } from 'dockerfile-ast';

export const ROOT = path.join(import.meta.dirname, '..', '..');

// Its types declare a default export that does not exist.
const dockerignore = createRequire(import.meta.url)('@balena/dockerignore') as () => Ignore;

/** One instruction: `args` are its words, also for CMD and USER; `text` is the whole argument. */
export interface Step {
  keyword: string;
  args: string[];
  text: string;
  /** The source stage of a COPY. */
  from: string | undefined;
}

/** A build stage, which begins with a FROM. */
export interface Stage {
  /** The name that other stages use: `AS name`, else its number. */
  name: string;
  image: string;
  steps: Step[];
}

export async function dockerfile(): Promise<Stage[]> {
  const stages: Stage[] = [];
  const text = await readFile(path.join(ROOT, 'Dockerfile'), 'utf8');
  for (const instruction of DockerfileParser.parse(text).getInstructions()) {
    if (instruction instanceof From) {
      const name = instruction.getBuildStage() ?? String(stages.length);
      stages.push({ name, image: instruction.getImage() ?? '', steps: [] });
    } else {
      stages.at(-1)!.steps.push(stepOf(instruction));
    }
  }
  return stages;
}

function stepOf(instruction: Instruction): Step {
  const strings = instruction instanceof JSONInstruction ? instruction.getJSONStrings() : [];
  const from = instruction instanceof Copy ? (instruction.getFromFlag()?.getValue() ?? undefined) : undefined;
  return {
    keyword: instruction.getKeyword(),
    args:
      strings.length > 0
        ? strings.map((each) => each.getJSONValue())
        : instruction.getArguments().map((each) => each.getValue()),
    text: instruction.getArgumentsContent() ?? '',
    from,
  };
}

/** The files of the build context: tracked or untracked, without those that .dockerignore excludes. */
export async function buildContext(): Promise<string[]> {
  const listing = ['ls-files', '--cached', '--others', '--exclude-standard', '-z'];
  const { stdout } = await promisify(execFile)('git', listing, { cwd: ROOT, maxBuffer: 64 * 1024 ** 2 });
  const ignore = dockerignore().add(await readFile(path.join(ROOT, '.dockerignore'), 'utf8'));
  return stdout.split('\0').filter((file) => file !== '' && !ignore.ignores(file));
}
