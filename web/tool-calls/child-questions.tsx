import { isToolUIPart } from 'ai';
import { useEffect, useState } from 'react';
import type { Question as Asked } from '../../domain/runs.ts';
import { SessionApi } from '../api/api.ts';
import { wordsOf } from '../api/problem.ts';
import { ShownSession } from '../session/shown-session.ts';
import { CallQuestion } from './call-question.tsx';

const RETRY_MS = 2_000;

/** The questions of subagents, those that work in the background too, and their calls that wait for a page. */
export function ChildQuestions({ questions }: { questions: readonly Asked[] }) {
  return questions.map((asked) => (
    <ShownSession key={asked.tool_call_id} value={asked.session_id}>
      {asked.for === 'approval' ? (
        <ChildQuestion asked={asked} />
      ) : (
        <p className="note">
          The subagent <code>{asked.agent}</code> waits for another page, which carries out <code>{asked.tool}</code>.
        </p>
      )}
    </ShownSession>
  ));
}

/** The input of the call is in the messages of the subagent only. */
function ChildQuestion({ asked }: { asked: Asked }) {
  const { session_id, message_id, tool_call_id, tool, agent } = asked;
  const [call, setCall] = useState<{ input: unknown }>();
  const [notice, setNotice] = useState<string>();
  useEffect(() => {
    let retry: ReturnType<typeof setTimeout> | undefined;
    let isShown = true;
    const read = async () => {
      try {
        const { items } = await new SessionApi(session_id).messages();
        const parts = items.find(({ id }) => id === message_id)?.parts ?? [];
        const found = parts.filter((part) => isToolUIPart(part)).find(({ toolCallId }) => toolCallId === tool_call_id);
        if (isShown && found !== undefined) setCall({ input: found.input });
      } catch (error) {
        if (!isShown) return;
        setNotice(wordsOf(error));
        retry = setTimeout(() => void read(), RETRY_MS);
      }
    };
    void read();
    return () => {
      isShown = false;
      clearTimeout(retry);
    };
  }, [session_id, message_id, tool_call_id]);
  return (
    <div className="tool child-question" data-state="approval-requested">
      <p>
        The subagent <code>{agent}</code> asks:
      </p>
      {call === undefined ? (
        <p className="note">{notice ?? 'Loading…'}</p>
      ) : (
        <CallQuestion toolCallId={tool_call_id} name={tool} input={call.input} descriptor={asked} />
      )}
    </div>
  );
}
