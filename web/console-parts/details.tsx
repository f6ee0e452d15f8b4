import type { ReactNode } from 'react';
import { countWords, durationWords, timeWords } from '../lib/amount-words.ts';
import { ConsoleLink } from './console-link.tsx';
import type { Call, Step, ConsoleWork } from './use-console.ts';

/** What is known of a step. */
export function StepDetails({ step: { usage, finish_reason, model, work } }: { step: Step }) {
  return (
    <dl className="facts">
      <Fact name="Model">{model ?? '–'}</Fact>
      <Fact name="Ended by">{finish_reason ?? '–'}</Fact>
      {usage !== null && (
        <>
          <Fact name="Input">{countWords(usage.input)}</Fact>
          <Fact name="Output">{countWords(usage.output)}</Fact>
          <Fact name="Reasoning">{countWords(usage.reasoning)}</Fact>
          <Fact name="Cache reads">{countWords(usage.cache_read)}</Fact>
          <Fact name="Cache writes">{countWords(usage.cache_write)}</Fact>
        </>
      )}
      <WorkFacts work={work} />
    </dl>
  );
}

/** What is known of a tool call. */
export function CallDetails({ call }: { call: Call }) {
  return (
    <dl className="facts">
      <Fact name="Call">
        <code>{call.tool_call_id}</code>
      </Fact>
      <Fact name="State">{call.state}</Fact>
      <Fact name="Called">{timeWords(call.called_at)}</Fact>
      {call.error !== null && <Fact name="Error">{call.error}</Fact>}
      {call.child_id !== null && (
        <Fact name="Subagent">
          <ConsoleLink id={call.child_id} />
        </Fact>
      )}
      <WorkFacts work={call.work} />
    </dl>
  );
}

function WorkFacts({ work }: { work: ConsoleWork | null }) {
  if (work === null) return <Fact name="Worker">not noted</Fact>;
  return (
    <>
      {work.first_ms !== null && <Fact name="First words after">{durationWords(work.first_ms)}</Fact>}
      <Fact name="Ended">{timeWords(work.ended_at)}</Fact>
      <Fact name="Attempt">{work.attempt}</Fact>
      <Fact name="Fence">
        <code>{work.fence.join('.')}</code>
      </Fact>
      <Fact name="Worker">
        <code>{work.worker}</code>
      </Fact>
    </>
  );
}

/** A name and its value in a description list. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
