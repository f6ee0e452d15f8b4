/** A todo of a project. */
export interface Todo {
  name: string;
  done: boolean;
}
