import { CheckCircleIcon as DoneIcon } from '@heroicons/react/20/solid';
import { CheckCircleIcon as OpenIcon } from '@heroicons/react/24/outline';
import { useShown } from '../session/read-while-shown.ts';
import type { TabSession } from '../session/tab-session.ts';
import { Known } from './known.tsx';

/** The todos of the session's project, live while they are shown. */
export function TodosPanel({ session }: { session: TabSession }) {
  const { value, notice } = useShown(session.todos);
  return (
    <div className="panel-body todos" role="group" aria-label="Todos of the project" tabIndex={0}>
      <Known value={value} notice={notice}>
        {(todos) =>
          todos.length === 0 ? (
            <p className="note">No todos. A project has some once the agent notes them.</p>
          ) : (
            <>
              <p className="note">
                {todos.filter(({ done }) => done).length} of {todos.length} done
              </p>
              <ul>
                {todos.map(({ name, done }) => (
                  <li key={name} data-done={done}>
                    {done ? <DoneIcon aria-hidden="true" /> : <OpenIcon aria-hidden="true" />}
                    <span>
                      <span dir="auto">{name}</span>
                      <span className="unseen">{done ? ', done' : ', to do'}</span>
                    </span>
                  </li>
                ))}
              </ul>
            </>
          )
        }
      </Known>
    </div>
  );
}
