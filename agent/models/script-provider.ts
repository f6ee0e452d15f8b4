// Models whose answers are written down, for tests and for trying an agent without a provider.
import { z } from 'zod';
import type { Json } from '../../domain/text.ts';
import { DefinitionError } from '../definition/define.ts';
import { importDefault } from '../loading/import-default.ts';
import { reloading, type ReloadReport } from '../loading/reloading.ts';
import type { ModelPrompt } from '../model-object.ts';
import { currentTurn, type SeenOutcome } from '../scripted/current-turn.ts';
import { type ModelCallOptions, type Reply, scriptModel } from '../scripted/script-model.ts';
import type { CustomProviders } from './providers.ts';

/** What the model answers in one step: a text, or a text and tool calls. Without tool calls it is the turn's last. */
export type ScriptedStep = string | { text?: string; calls?: readonly { tool: string; input: Json }[] };

/** What a step of a script can depend on. */
export interface ScriptContext {
  /** Number of the step in its turn, from 0. */
  step: number;
  /** The text of the user's message. */
  text: string;
  /** The outcomes of this turn's tool calls, in order. */
  outcomes: readonly SeenOutcome[];
  /** Names of the tools that the model may call. */
  tools: readonly string[];
  prompt: ModelPrompt;
}

/** The steps of each turn, from its first; or a function that returns the next one. */
export type Script = readonly ScriptedStep[] | ((context: ScriptContext) => ScriptedStep | Promise<ScriptedStep>);

/** The provider of `PERDURE_MODEL=script/<file>`. */
const SCRIPT_PROVIDER = 'script';

/** Pause between two words, as if a model was writing. */
const DELAY_MS = 12;

const stepSchema = z.union([
  z.string(),
  z.strictObject({
    text: z.string().optional(),
    calls: z.array(z.strictObject({ tool: z.string().min(1), input: z.json() })).optional(),
  }),
]);
const scriptSchema = z.union([
  z.array(stepSchema).min(1),
  z.custom<(context: ScriptContext) => ScriptedStep>((value) => typeof value === 'function'),
]);

/** The reply of a script to a call. @throws {Error} if the script has no such step, or it is invalid */
export async function replyOf(script: Script, { prompt, tools }: ModelCallOptions): Promise<Reply> {
  const { text, steps: step, outcomes } = currentTurn(prompt);
  if (typeof script !== 'function') return complete(script[step] ?? noStep(script.length, step));
  const names = tools?.map((tool) => tool.name) ?? [];
  const next = await script({ step, text, outcomes, tools: names, prompt });
  const parsed = stepSchema.safeParse(next);
  if (!parsed.success) throw new DefinitionError('script: expected a text, or { text?, calls?: [{ tool, input }] }');
  return complete(next);
}

/**
 * The provider `script` if `model` is `script/<file>`: it has this model only, so that no request can name another file.
 * The module's default export is a `Script`; the path is relative to the working directory.
 * @throws {DefinitionError} naming the file, if it cannot be loaded or exports something else
 */
export async function scriptProvider(model: string | undefined, reload?: ReloadReport): Promise<CustomProviders> {
  const file = model?.startsWith(`${SCRIPT_PROVIDER}/`) ? model.slice(SCRIPT_PROVIDER.length + 1) : undefined;
  if (file === undefined) return {};
  const make = (exported: unknown) => checkedScript(file, exported);
  const script = reload ? await reloading(file, make, reload) : fixed(make(await importDefault(file)));
  const only = scriptModel({
    provider: SCRIPT_PROVIDER,
    modelId: file,
    replyTo: (options) => replyOf(script(), options),
    delayMs: DELAY_MS,
  });
  return { [SCRIPT_PROVIDER]: (id) => (id === file ? only : noScript(file)) };
}

function checkedScript(file: string, exported: unknown): Script {
  if (scriptSchema.safeParse(exported).success) return exported as Script;
  throw new DefinitionError(
    `${file}: expected an array of steps, or a function that returns a step, as the default export; ` +
      'a step is a text, or { text?, calls?: [{ tool, input }] }',
  );
}

const fixed =
  <T>(value: T) =>
  () =>
    value;

function complete(step: ScriptedStep): Reply {
  return typeof step === 'string' ? { text: step, calls: [] } : { text: step.text ?? '', calls: step.calls ?? [] };
}

function noStep(length: number, step: number): never {
  throw new Error(`the script has ${length} steps for a turn, and this is step ${step + 1}`);
}

function noScript(file: string): never {
  throw new Error(`the only script is ${file}`);
}
