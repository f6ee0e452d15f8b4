/** What is not seen, looks like a space or changes the direction of others, but tab, line break and space. */
const UNSEEN = String.raw`(?![\t\n ]|\r\n)[\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]`;
const ALL_UNSEEN = new RegExp(UNSEEN, 'gu');
/** Also the backslashes before it, and before what would then look like it. */
const TO_ESCAPE = new RegExp(String.raw`${UNSEEN}|(?<!\\)\\+(?=u(?:[\da-f]{4}|\{[\da-f])|${UNSEEN})`, 'gu');

/**
 * A text whose every character is seen: `\u202e` instead of one that reorders or hides what a user decides about. The backslashes
 * of a text that looks like this are doubled.
 */
export function visible(text: string): string {
  return text.replaceAll(TO_ESCAPE, (found) => (found.startsWith('\\') ? found + found : escaped(found)));
}

/** JSON that is longer or deeper would take long to show on many lines. */
const LONG = 100_000;
const DEEP = 64;

/** A value as JSON whose every character is seen. */
export function visibleJson(value: unknown): string {
  const line = JSON.stringify(value) ?? '';
  const text = line.length > LONG || isDeep(value) ? line : JSON.stringify(value, null, 2);
  return text.replaceAll(ALL_UNSEEN, escaped);
}

function isDeep(value: unknown, levels = DEEP): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((each) => isDeep(each, levels - 1));
}

function escaped(character: string): string {
  const code = Number(character.codePointAt(0)).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
}
