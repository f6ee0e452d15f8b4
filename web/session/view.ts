import type { SessionStatus } from '../../domain/runs.ts';
import type { Agents, PickedModel, Offered, SessionFacts, WindowInUse } from '../api/api.ts';
import type { Waiting } from '../transcript/transcript.ts';

/** What the page shows besides the messages. */
export interface View extends SessionFacts {
  /** False until an existing session has been loaded. */
  loaded: boolean;
  /** The connection to the server is lost and being retried. */
  lost: boolean;
  status: SessionStatus;
  /** Messages that are not being answered yet, in order. */
  waiting: Waiting[];
  /** Ids of those that the user takes back: it is not known yet whether the server has begun to answer them. */
  takingBack: readonly string[];
  /** Cursor of earlier messages that are not loaded; null: all are loaded. */
  earlier: string | null;
  /** Why the user's last action failed. */
  notice: string | null;
  /** The branch that was made last in this tab, and the message up to which it has copies. */
  branch: { from: string; id: string } | null;
  /** Its title, as it was read last; null: none yet. */
  title: string | null;
  /** The session that this one is a branch of; null: none. */
  parent: string | null;
  /** The session belongs to a tool call of another one. */
  isChild: boolean;
  /** The initiative that the session has joined; null: none. */
  initiative: string | null;
  /** The agent that answers; null: not known yet, or the default one. */
  agent: string | null;
  /** The agents that there are; null: not known yet. */
  agents: Agents | null;
  /** The models to choose from; null: not known yet. */
  offered: Offered | null;
  /** The model that the session goes on with; null: its agent's. */
  lastModel: string | null;
  /** Which model answers the next messages; null: as before. */
  model: PickedModel | null;
  /** What the session has cost, in US dollars; null: unknown. */
  cost: number | null;
  /** How full the model's window is; null: no step yet. */
  window: WindowInUse | null;
  /** Progress of the running tool call, as the tool told it. */
  progress: { tool_call_id: string; data: unknown } | null;
}

/** The view of a new session. */
export const NEW_VIEW: View = {
  phase: 'chatting',
  project_id: null,
  pending_tool: null,
  gone_back_to: null,
  loaded: false,
  lost: false,
  status: { state: 'idle' },
  waiting: [],
  takingBack: [],
  earlier: null,
  notice: null,
  branch: null,
  title: null,
  parent: null,
  isChild: false,
  initiative: null,
  agent: null,
  agents: null,
  offered: null,
  lastModel: null,
  model: null,
  cost: null,
  window: null,
  progress: null,
};
