import type { UIMessage } from 'ai';
import type { TabSession } from '../session/tab-session.ts';
import type { View } from '../session/view.ts';
import { Meter } from './meter.tsx';
import { ModelPicker } from './model-picker.tsx';

/** Above the input field: the model of the next messages, and how full its window is. */
export function BesideComposer(props: {
  session: TabSession;
  view: View;
  messages: readonly UIMessage[];
  isWorking: boolean;
}) {
  const { session, view, messages, isWorking } = props;
  const { window, cost } = view;
  return (
    <div className="beside-composer">
      <ModelPicker view={view} onChoose={(choice) => session.chooseModel(choice)} />
      <Meter messages={messages} window={window} cost={cost} />
      {messages.length > 0 && !isWorking && (
        <button
          type="button"
          className="quiet"
          title="Summarize earlier turns, so that the conversation takes less of the window"
          onClick={() => void session.command('compact')}
        >
          Compact
        </button>
      )}
    </div>
  );
}
