import type { UIMessage } from 'ai';
import type { AgentDefinition } from '../agent/define.ts';
import type { ResolvedModel } from '../agent/models.ts';
import { type AssembledPrompt, assemblePrompt, systemText } from '../agent/prompt.ts';
import { modelView } from '../domain/model-view.ts';
import { workspaceRoot } from '../workspaces/paths.ts';
import { keepPrompt, readPrompt } from '../store/prompts.ts';
import type { ClaimedStep } from '../store/runs.ts';
import { loadView } from '../store/view.ts';
import { requireWorkspace } from '../workspaces/folder.ts';
import type { ActivityContext } from './context.ts';

/** The prompt of one model call. */
export interface StepPrompt {
  system: string;
  messages: UIMessage[];
  digest: string;
  /** Settles when the prompt is stored under its digest. If that failed, a call retries. */
  stored: () => Promise<void>;
}

/** System texts by session and digest, newest last: a cache for the later steps of a turn. */
const known = new Map<string, string>();
const MAX_KNOWN = 256;

/** Loads the model's view of the conversation and, once a turn, assembles the system prompt. */
export async function stepPrompt(
  context: ActivityContext,
  claimed: ClaimedStep,
  turn: { sessionId: string; agent: AgentDefinition; model: ResolvedModel },
): Promise<StepPrompt> {
  const [view, system] = await Promise.all([
    loadView(context.db, turn.sessionId, {
      messageId: claimed.message_id,
      answerId: claimed.answer_id,
      settledParts: claimed.next_index,
    }),
    systemOf(context, claimed, turn),
  ]);
  const states = new Map(view.flatMap(({ id, aborted }) => (aborted ? [[id, 'aborted']] : [])));
  return { ...system, messages: modelView(view, states) as unknown as UIMessage[] };
}

/**
 * The workspace folder of a session. Creates it if it is missing.
 * @throws {PerdureError} `WorkspaceNotUsable`
 */
export function workspaceOf(
  context: ActivityContext,
  session: { sessionId: string; user_id: string; workspace_root: string | null; project_id: string | null },
): string {
  const { workspaces } = context.settings;
  const root = workspaceRoot(workspaces, { ...session, session_id: session.sessionId });
  requireWorkspace(workspaces, root, { make: true });
  return root;
}

async function systemOf(
  context: ActivityContext,
  claimed: ClaimedStep,
  { sessionId, agent, model }: { sessionId: string; agent: AgentDefinition; model: ResolvedModel },
): Promise<Pick<StepPrompt, 'system' | 'digest' | 'stored'>> {
  if (claimed.digest !== null) {
    const system =
      known.get(`${sessionId} ${claimed.digest}`) ?? (await storedSystem(context, sessionId, claimed.digest));
    if (system !== undefined) return { system, digest: claimed.digest, stored: () => Promise.resolve() };
  }
  const folder = workspaceOf(context, { sessionId, ...claimed });
  const prompt = await assemblePrompt({
    agent,
    workspaceRoot: folder,
    boundary: context.settings.workspaces,
    date: new Date().toISOString().slice(0, 10),
    model: model.ref,
  });
  return { system: prompt.system, digest: prompt.digest, stored: storing(context, sessionId, prompt) };
}

async function storedSystem(context: ActivityContext, sessionId: string, digest: string): Promise<string | undefined> {
  const sections = await readPrompt(context.db, sessionId, digest);
  return sections && systemText(sections);
}

/** Stores a prompt that this process has not stored before, during the model call instead of before it. */
function storing(context: ActivityContext, sessionId: string, prompt: AssembledPrompt): () => Promise<void> {
  const store = async () => {
    const name = `${sessionId} ${prompt.digest}`;
    if (known.has(name)) return;
    await keepPrompt(context.db, sessionId, prompt);
    if (known.size >= MAX_KNOWN) known.delete(known.keys().next().value ?? '');
    known.set(name, prompt.system);
  };
  const first = store();
  // The returned function retries. If the step fails before it is called, the rejection must not be unhandled.
  first.catch(() => {});
  return () => first.catch(store);
}
