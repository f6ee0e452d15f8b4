import { type DynamicToolUIPart, getToolName, type ToolUIPart } from 'ai';
import type { ComponentProps } from 'react';
import type { PermissionRecord } from '../../domain/permissions.ts';
import { TASK_TOOL } from '../../domain/task-tool.ts';
import { useOpened } from '../lib/opened.ts';
import { isRecord } from '../lib/record.ts';
import { WithFallback } from '../lib/with-fallback.tsx';
import { written } from '../lib/written.ts';
import { Growing } from '../markdown/growing.ts';
import { type HeldCall, isEndedCall } from '../transcript/transcript.ts';
import { CallQuestion } from './call-question.tsx';
import { ChildWork } from './child-work.tsx';
import { ToolInput } from './tool-input.tsx';
import { ToolOutput } from './tool-output.tsx';
import { visible } from './visible.ts';

type ToolPart = ToolUIPart | DynamicToolUIPart;

const STATE_WORDS: Record<ToolPart['state'], string> = {
  'input-streaming': 'being written',
  'input-available': 'running',
  'approval-requested': 'waits for your answer',
  'approval-responded': 'running',
  'output-available': 'done',
  'output-error': 'failed',
  'output-denied': 'refused',
};
const FOR_PAGE = 'waits for another page';
const DECISION_WORDS: Record<PermissionRecord['decision'], string> = {
  allow: 'Allowed by a rule',
  deny: 'Denied by a rule',
  once: 'Allowed once',
  session: 'Allowed for this session',
  always: 'Always allowed in the project',
  reject: 'Rejected',
};

interface Props extends Pick<ComponentProps<typeof ChildWork>, 'Answer'> {
  part: ToolPart;
  isLive: boolean;
  /** Set if the turn waits for this call: who is to act. */
  heldBy: HeldCall['by'] | undefined;
  /** What the running tool told last; undefined: nothing. */
  progress?: unknown;
}

/**
 * A tool call: name and state, with input and output in a collapsed section. Below it what the call needs or shows now: its
 * question, its progress, the work of the subagent that it has called, or why it failed.
 */
export function ToolCall({ part, isLive, heldBy, progress, Answer }: Props) {
  const isRunning = !isEndedCall(part);
  const isStopped = !isLive && isRunning;
  const name = getToolName(part);
  const words = isStopped
    ? 'stopped'
    : heldBy === 'page'
      ? FOR_PAGE
      : STATE_WORDS[isRunning ? runningState(part) : part.state];
  const child = name === TASK_TOOL ? (childIn(part.output) ?? childIn(progress)) : undefined;
  const decision = decisionOf(part);
  const section = useOpened(`call ${part.toolCallId}`);
  return (
    <div className="tool" data-state={isStopped ? 'stopped' : part.state}>
      <details {...section}>
        <summary>
          <code>{name}</code> <span className="brief">{visible(briefOf(part.input))}</span>
          <span className="state">{words}</span>
        </summary>
        {section.open && (
          <WithFallback fallback={<p className="note">This cannot be shown.</p>}>
            <Growing value={part.state === 'input-streaming'}>
              <ToolInput input={part.input} />
            </Growing>
            {part.state === 'output-available' && <ToolOutput output={part.output} path={pathIn(part.input)} />}
          </WithFallback>
        )}
        {decision !== undefined && <p className="note">{DECISION_WORDS[decision]}.</p>}
      </details>
      {isLive && part.state === 'approval-requested' && part.approval.isAutomatic !== true && (
        <CallQuestion
          toolCallId={part.toolCallId}
          name={name}
          input={part.input}
          descriptor={part.approval.descriptor}
        />
      )}
      {heldBy === 'page' && <p className="progress">The page that carries out this tool is open elsewhere.</p>}
      {child !== undefined && <ChildWork id={child} isRunning={isLive && isRunning} Answer={Answer} />}
      {isLive && isRunning && child === undefined && progress !== undefined && (
        <p className="progress">{written(progress)}</p>
      )}
      {part.state === 'output-error' && <p className="error">{part.errorText}</p>}
      {part.state === 'output-denied' && part.approval.reason !== undefined && (
        <p className="error">{part.approval.reason}</p>
      )}
    </div>
  );
}

/** Of a preliminary output the call still runs. */
function runningState({ state }: ToolPart): ToolPart['state'] {
  return state === 'output-available' ? 'input-available' : state;
}

/** The session of the subagent that a call has called. */
function childIn(value: unknown): string | undefined {
  const id = isRecord(value) ? value['session_id'] : undefined;
  return typeof id === 'string' ? id : undefined;
}

function decisionOf({ callProviderMetadata }: ToolPart): PermissionRecord['decision'] | undefined {
  const { permission } = callProviderMetadata?.['perdure'] ?? {};
  const decision = isRecord(permission) ? permission['decision'] : undefined;
  return typeof decision === 'string' && Object.hasOwn(DECISION_WORDS, decision)
    ? (decision as PermissionRecord['decision'])
    : undefined;
}

/** The file that a call is about. */
function pathIn(input: unknown): string | undefined {
  const path = isRecord(input) ? input['path'] : undefined;
  return typeof path === 'string' ? path : undefined;
}

/** The first text of an input, such as a path. */
function briefOf(input: unknown): string {
  const first = Object.values(isRecord(input) ? input : {}).find((value) => typeof value === 'string');
  return typeof first === 'string' && first.length <= 80 ? first : '';
}
