import { AlertDialog } from '@base-ui/react/alert-dialog';
import { useSyncExternalStore } from 'react';
import { Store } from '../lib/store.ts';

/** What the user is asked before something is done. */
interface Question {
  title: string;
  /** What will happen, and whether it can be undone. */
  text: string;
  /** The button that does it. */
  action: string;
}

interface Asking extends Question {
  isOpen: boolean;
  answer: (isConfirmed: boolean) => void;
}

const store = new Store<Asking>({ isOpen: false, title: '', text: '', action: '', answer: () => {} });

/** Asks the user, who may also decide against it. A question that is still open is answered with no. */
export function confirmed(question: Question): Promise<boolean> {
  store.get().answer(false);
  return new Promise((resolve) => {
    const answer = (isConfirmed: boolean) => {
      store.update({ isOpen: false, answer: () => {} });
      resolve(isConfirmed);
    };
    store.update({ ...question, isOpen: true, answer });
  });
}

/** The dialog of `confirmed`: the page has one. */
export function Confirmation() {
  const { isOpen, title, text, action, answer } = useSyncExternalStore(store.subscribe, store.get);
  return (
    <AlertDialog.Root open={isOpen} onOpenChange={(open) => open || answer(false)}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Popup className="dialog">
          <AlertDialog.Title className="dialog-title">{title}</AlertDialog.Title>
          <AlertDialog.Description className="dialog-text">{text}</AlertDialog.Description>
          <div className="dialog-buttons">
            <AlertDialog.Close>Keep it</AlertDialog.Close>
            <button type="button" className="danger" onClick={() => answer(true)}>
              {action}
            </button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
