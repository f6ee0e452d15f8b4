/** Controls but tab and line feed, and characters that are not seen, or that change the direction of others. */
const UNSEEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** A text whose every character is seen: `\u202e` instead of one that reorders or hides what a user decides about. */
export function visible(text: string): string {
  return text.replaceAll(UNSEEN, (character) => {
    const code = Number(character.codePointAt(0)).toString(16);
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
  });
}
