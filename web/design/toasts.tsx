import { Toast } from '@base-ui/react/toast';
import { XMarkIcon } from '@heroicons/react/20/solid';

const manager = Toast.createToastManager();
/** Long enough to read a sentence and reach its button; it stays while the pointer or the focus is on it. */
const SHOWN_MS = 10_000;

/** Says what was done, with a button that undoes it. */
export function say(title: string, undo?: () => void): void {
  const onClick = () => {
    manager.close(id);
    undo?.();
  };
  const id = manager.add({ title, timeout: SHOWN_MS, ...(undo && { actionProps: { children: 'Undo', onClick } }) });
}

/** Says why something failed; until the user closes it. */
export function sayProblem(title: string): void {
  manager.add({ title, type: 'problem', priority: 'high', timeout: 0 });
}

/** The messages of `say` and `sayProblem`: the page has them once. */
export function Toasts() {
  return (
    <Toast.Provider toastManager={manager}>
      <Toast.Portal>
        <Toast.Viewport className="toasts">
          <Shown />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function Shown() {
  const { toasts } = Toast.useToastManager();
  return toasts.map((toast) => (
    <Toast.Root key={toast.id} toast={toast} className="toast" swipeDirection={['down', 'right']}>
      <Toast.Content className="toast-content">
        <Toast.Title render={<p />} />
        <Toast.Action className="quiet" />
        <Toast.Close className="icon-button" aria-label="Close">
          <XMarkIcon aria-hidden="true" />
        </Toast.Close>
      </Toast.Content>
    </Toast.Root>
  ));
}
