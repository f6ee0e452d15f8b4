import type { UIMessage } from 'ai';
import type { AgentDefinition, PromptSession, TurnSession } from '../../agent/definition/define.ts';
import type { ResolvedModel } from '../../agent/models/models.ts';
import { type AssembledPrompt, assemblePrompt, systemText } from '../../agent/prompt/assemble-prompt.ts';
import { isPromptFunction, promptText } from '../../agent/prompt/prompt-text.ts';
import { PerdureError } from '../../domain/errors.ts';
import { modelView } from '../../domain/model-view.ts';
import { fillPromptTemplate, isTemplate } from '../../domain/prompt-template.ts';
import type { Json } from '../../domain/text.ts';
import { instructionsOfTools } from '../../store/instructions.ts';
import { keepPrompt, keepTurnPrompt, readPrompt } from '../../store/prompts.ts';
import { loadTurnState } from '../../store/state.ts';
import type { LoadedStep } from '../../store/steps.ts';
import { viewMessages } from '../../store/view-messages.ts';
import { workspaceRoot } from '../../workspaces/paths.ts';
import { requireWorkspace } from '../../workspaces/require-workspace.ts';
import type { ActivityContext } from '../activity-context.ts';
import type { Claimed } from '../claims/claimed.ts';
import { writeUntilStored } from '../claims/write-until-stored.ts';
import { joinedSection } from './joined-section.ts';
import { workspaceName } from './tool-watch.ts';
import { withAttachments } from './with-attachments.ts';

/** The prompt of one model call. */
export interface StepPrompt {
  system: string;
  messages: UIMessage[];
  /** The tools, as canonical JSON. */
  tools: string;
  digest: string;
  /** Settles when the prompt is stored under its digest. If that failed, a call retries. */
  stored: () => Promise<void>;
}

/** Sections of prompts by session and digest, newest last: a cache for the later steps of a turn. */
const known = new Map<string, readonly string[]>();
const MAX_KNOWN = 256;

function remember(name: string, sections: readonly string[]): void {
  if (known.size >= MAX_KNOWN) known.delete(known.keys().next().value ?? '');
  known.set(name, sections);
}

interface Turn {
  sessionId: string;
  agent: AgentDefinition;
  model: ResolvedModel;
}

/** The messages of the model's view and, assembled once a turn, the system prompt. */
export async function stepPrompt(work: Claimed, turn: Turn): Promise<StepPrompt> {
  const { context, claimed } = work;
  const { sections, evaluated, ...prompt } = await promptOf(work, turn);
  const { message_id: messageId } = claimed;
  const system = evaluated ? systemText(sections) : await filledText(context, sections, { ...turn, messageId });
  const reading = { context, sessionId: turn.sessionId, signal: work.stop.signal };
  const messages = await withAttachments(reading, shownMessages(claimed.view));
  return { ...prompt, system, tools: sections[4] ?? '', messages };
}

/** What the model sees of the parts of a conversation. */
export function shownMessages(parts: LoadedStep['view']): UIMessage[] {
  const view = viewMessages(parts);
  const states = new Map(view.flatMap(({ id, aborted }) => (aborted ? [[id, 'aborted']] : [])));
  return modelView(view, states) as unknown as UIMessage[];
}

/**
 * The workspace folder of a session. Creates it if it is missing.
 * @throws {PerdureError} `WorkspaceNotUsable`
 */
export function sessionWorkspace(
  context: ActivityContext,
  session: { sessionId: string; user_id: string; workspace_root: string | null; project_id: string | null },
): string {
  const { workspaces } = context.settings;
  const root = workspaceRoot(workspaces, { ...session, session_id: session.sessionId });
  requireWorkspace(workspaces, root, { make: true });
  return root;
}

/**
 * The system text. The agent's prompt, the first section, is a template of the state at this step. It is filled in here and
 * stored unfilled: so no `temp:` value is stored, and sessions share their prompts.
 * @throws {PerdureError} `StateNotSet`
 */
async function filledText(
  context: ActivityContext,
  [prompt = '', ...others]: readonly string[],
  turn: { sessionId: string; messageId: string; agent: AgentDefinition },
): Promise<string> {
  if (!isTemplate(prompt)) return systemText([prompt, ...others]);
  const state = new Map<string, Json>(await loadTurnState(context.db, turn));
  return systemText([fillPromptTemplate(prompt, (name) => state.get(name)), ...others]);
}

type StoredPrompt = Pick<StepPrompt, 'digest' | 'stored'> & {
  sections: readonly string[];
  /** Whether a function made the agent's prompt. The agent may have changed since the turn began. */
  evaluated: boolean;
};

async function promptOf(work: Claimed, { sessionId, agent, model }: Turn): Promise<StoredPrompt> {
  const { context, claimed, stop } = work;
  if (claimed.digest !== null) {
    const sections =
      known.get(`${sessionId} ${claimed.digest}`) ?? (await readPrompt(context.db, sessionId, claimed.digest));
    const { digest, evaluated } = claimed;
    if (sections !== undefined) return { sections, digest, evaluated, stored: () => Promise.resolve() };
  }
  const folder = sessionWorkspace(context, { sessionId, ...claimed });
  const { workspaces: boundary } = context.settings;
  const date = new Date().toISOString().slice(0, 10);
  const text = await loggedPromptText(work, { ...turnSessionOfRow(sessionId, claimed), date });
  stop.signal.throwIfAborted();
  const prompt = await assemblePrompt({
    agent: { ...context.mcp.withTools(agent), prompt: text },
    workspaceRoot: folder,
    boundary,
    writtenByTools: context.settings.trustOwnInstructions
      ? undefined
      : (found) => instructionsOfTools(context.db, workspaceName(folder, boundary), found),
    initiative: await joinedSection(context, claimed),
    date,
    model: model.ref,
    variant: model.variant,
  });
  if (isPromptFunction(agent)) return keptForTurn(work, prompt);
  const { sections, digest } = prompt;
  return { sections, digest, evaluated: false, stored: storing(context, sessionId, prompt) };
}

/** What prompts and tools see of a session, from a row with its user, project, metadata and attributes. */
export function turnSessionOfRow(
  sessionId: string,
  row: Pick<LoadedStep, 'user_id' | 'project_id' | 'metadata' | 'attributes'>,
): TurnSession {
  const { user_id: userId, project_id: projectId, metadata, attributes } = row;
  return { sessionId, userId, projectId, metadata, attributes: attributes ?? {} };
}

async function loggedPromptText({ context, claim, agent, stop }: Claimed, session: PromptSession): Promise<string> {
  try {
    return await promptText(agent, session, stop.signal);
  } catch (err) {
    const run = { session: claim.sessionId, run: claim.runSeq };
    if (err instanceof PerdureError) context.log.error({ err, ...run, agent: agent.id }, err.message);
    throw err;
  }
}

/** Stores the prompt before its first use: another attempt, here or elsewhere, would get another text. */
async function keptForTurn(work: Claimed, prompt: AssembledPrompt): Promise<StoredPrompt> {
  const { context, claim, stop } = work;
  const digest = await writeUntilStored(work, (mine) => keepTurnPrompt(context.db, mine, prompt));
  if (digest === null) stop.fire('lost');
  stop.signal.throwIfAborted();
  remember(`${claim.sessionId} ${prompt.digest}`, prompt.sections);
  return { sections: prompt.sections, digest: prompt.digest, evaluated: true, stored: () => Promise.resolve() };
}

/**
 * Stores a prompt that this process has not stored before, during the model call instead of before it. The answer's row, which
 * names it, is written later: otherwise a crash in between would leave a digest without a prompt.
 */
function storing(context: ActivityContext, sessionId: string, prompt: AssembledPrompt): () => Promise<void> {
  const store = async () => {
    const name = `${sessionId} ${prompt.digest}`;
    if (known.has(name)) return;
    await keepPrompt(context.db, sessionId, prompt);
    remember(name, prompt.sections);
  };
  let newest = store();
  // The returned function retries. If the step fails before it is called, the rejection must not be unhandled.
  newest.catch(() => {});
  return () => (newest = newest.catch(store));
}
