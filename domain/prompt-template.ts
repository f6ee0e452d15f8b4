import { PerdureError } from './errors.ts';
import type { Json } from './text.ts';

const NAME = String.raw`(?:app:|user:|temp:)?[A-Za-z_]\w*`;
/** `{{name}}`, group 1; or `{name}`, group 2, with `?`, group 3. Any other braces are text. */
const PLACEHOLDER = new RegExp(String.raw`\{(\{${NAME}\??\})\}|\{(${NAME})(\?)?\}`, 'g');

/** Whether a prompt refers to state. */
export function isTemplate(prompt: string): boolean {
  return prompt.search(PLACEHOLDER) >= 0;
}

/**
 * Replaces `{name}` by the value of the state key `name`: a text as it is, any other value as JSON. `{name?}` may be unset,
 * and is empty then. `{{name}}` becomes the text `{name}`.
 * @throws {PerdureError} `StateNotSet`, naming the key
 */
export function fillPromptTemplate(prompt: string, read: (name: string) => Json | undefined): string {
  return prompt.replace(PLACEHOLDER, (_all, literal?: string, name: string = '', optional?: string) => {
    if (literal !== undefined) return literal;
    const value = read(name);
    if (value !== undefined) return typeof value === 'string' ? value : JSON.stringify(value);
    if (optional !== undefined) return '';
    throw new PerdureError('StateNotSet', `the agent's prompt needs the state key "${name}", which is not set`);
  });
}
