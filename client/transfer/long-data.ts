import { MAX_ANSWER } from '../../domain/max-answer.ts';
import { InvalidInputError } from '../../wire/input.ts';
import { exportedContent } from '../../wire/transfer.ts';
import { parsed } from './import-check.ts';
import { jsonOf, type ParsedLine } from './line-reader.ts';

/** Longest data of a part, in characters: an answer whose characters are all escaped, such as newlines, and what JSON adds to it. */
const MAX_DATA = 2 * MAX_ANSWER + 1024 ** 2;

/**
 * The data of a part whose JSON is in the lines of content after it.
 * @param field the part's line
 * @throws {InvalidInputError} `InvalidLine`, `TooLarge`
 */
export async function longData(field: string, contents: AsyncIterable<ParsedLine>): Promise<unknown> {
  let text = '';
  for await (const { number, value } of contents) {
    text += parsed(exportedContent, value, `line ${number}`).data;
    if (text.length <= MAX_DATA) continue;
    const expected = `at most ${MAX_DATA} characters in the data of ${field}`;
    throw new InvalidInputError([{ field: `line ${number}`, expected }], 'TooLarge');
  }
  return jsonOf(text, `${field}.data`);
}
