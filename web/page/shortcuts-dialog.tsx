import { Dialog } from '@base-ui/react/dialog';
import { useState, useSyncExternalStore } from 'react';
import { questionKey, SHORTCUTS, shortcutsDialog } from '../navigation/shortcuts.ts';

/** Lists the keyboard shortcuts. */
export function ShortcutsDialog() {
  const { isOpen } = useSyncExternalStore(shortcutsDialog.subscribe, shortcutsDialog.get);
  return (
    <Dialog.Root open={isOpen} onOpenChange={(open) => shortcutsDialog.update({ isOpen: open })}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title className="dialog-title">Keyboard shortcuts</Dialog.Title>
          <dl className="shortcuts">
            {SHORTCUTS.map(({ keys, does }) => (
              <div key={keys}>
                <dt>{does}</dt>
                <dd>
                  <kbd>{keys}</kbd>
                </dd>
              </div>
            ))}
          </dl>
          <QuestionKey />
          <div className="dialog-buttons">
            <Dialog.Close>Close</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function QuestionKey() {
  const [isOn, setOn] = useState(questionKey.isOn);
  const choose = (chosen: boolean) => {
    questionKey.isOn = chosen;
    setOn(chosen);
  };
  return (
    <label className="choice">
      <input type="checkbox" checked={isOn} onChange={(event) => choose(event.target.checked)} />
      The key ? alone opens this
    </label>
  );
}
