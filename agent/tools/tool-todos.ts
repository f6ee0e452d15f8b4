import { byteLength, cleanText } from '../../domain/text.ts';
import type { Todo } from '../../domain/todo.ts';
import type { ToolTodos } from '../definition/define.ts';
import { NO_PROJECT_TEXT } from './execute-tool.ts';

const MAX_NAME_BYTES = 256;

/**
 * The todos that a tool sees, with its changes.
 *
 * @param load reads those of the project; undefined without a project
 */
export function toolTodos(load: (() => Promise<Todo[]>) | undefined): { todos: ToolTodos; changes(): Todo[] } {
  const changed = new Map<string, Todo>();
  const list = async (): Promise<Todo[]> => {
    const merged = new Map(((await load?.()) ?? []).map((todo) => [todo.name, todo]));
    for (const todo of changed.values()) merged.set(todo.name, todo);
    return [...merged.values()];
  };
  const todos: ToolTodos = {
    list,
    add: (name) => {
      if (load === undefined) throw new Error(NO_PROJECT_TEXT);
      if (name === '' || byteLength(name) > MAX_NAME_BYTES || name !== cleanText(name)) {
        throw new Error(`a todo's name has 1 to ${MAX_NAME_BYTES} bytes of text`);
      }
      changed.set(name, { name, done: false });
    },
    complete: async (name) => {
      if (!(await list()).some((todo) => todo.name === name)) throw new Error(`there is no todo "${name}"`);
      changed.set(name, { name, done: true });
    },
  };
  return { todos, changes: () => [...changed.values()] };
}
