import { byteLength } from './text.ts';

/** Maximum length of an alias in UTF-8. */
export const MAX_ALIAS_BYTES = 128;

/** True for a valid chat id: a session id or an alias. */
export function isAlias(text: string): boolean {
  return text !== '' && byteLength(text) <= MAX_ALIAS_BYTES && text.isWellFormed() && !/\p{Cc}/u.test(text);
}
