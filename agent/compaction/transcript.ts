import { getToolName, type UIMessage } from 'ai';
import { prunedStub } from '../../domain/compaction.ts';
import { countTokens, outcomeText, outcomeTokens } from './tokens.ts';

// A conversation as text, for the model that summarizes it.

type Part = UIMessage['parts'][number];

/** The messages of a model's view as text, one text per message. */
export function transcript(messages: readonly UIMessage[]): string[] {
  return messages.map(({ role, parts }) => {
    const lines = parts.map(partText).filter((text) => text !== '');
    return `# ${role === 'user' ? 'User' : 'Assistant'}\n\n${lines.join('\n\n')}`;
  });
}

/** The messages with their tool outputs replaced by a note of their size. */
export async function withoutOutputs(messages: readonly UIMessage[]): Promise<UIMessage[]> {
  return Promise.all(
    messages.map(async (message) => ({ ...message, parts: await Promise.all(message.parts.map(withoutOutput)) })),
  );
}

async function withoutOutput(part: Part): Promise<Part> {
  if (!('toolCallId' in part) || part.state !== 'output-available') return part;
  return { ...part, output: prunedStub(await outcomeTokens(part)) };
}

function partText(part: Part): string {
  if (part.type === 'text') return part.text;
  if (part.type === 'file') return `[file ${part.filename ?? ''} of type ${part.mediaType}]`;
  if (!('toolCallId' in part)) return '';
  return `[tool ${getToolName(part)}] ${JSON.stringify(part.input)}\n→ ${outcomeText(part)}`;
}

/** Cuts a text into pieces of at most `most` tokens; a single character may have more. */
async function piecesOf(text: string, most: number): Promise<string[]> {
  const half = middleOf(text);
  if (half === 0 || (await countTokens(text)) <= most) return [text];
  return [...(await piecesOf(text.slice(0, half), most)), ...(await piecesOf(text.slice(half), most))];
}

/** Where to cut a text in two, not within a character; 0: it is a single one. */
function middleOf(text: string): number {
  const half = Math.floor(text.length / 2);
  const isWithin = /^[\uD800-\uDBFF][\uDC00-\uDFFF]/.test(text.slice(Math.max(0, half - 1), half + 1));
  const end = isWithin ? half + 1 : half;
  return end < text.length ? end : 0;
}

/** Joins texts, in order, into as few as possible of at most `most` tokens each; a single character may have more. */
export async function chunksOf(texts: readonly string[], most: number): Promise<string[]> {
  const chunks: string[] = [];
  let size = Infinity;
  for (const text of texts) {
    for (const piece of await piecesOf(text, most)) {
      const tokens = (await countTokens(piece)) + 2;
      if (size + tokens <= most) {
        chunks.push(`${chunks.pop()}\n\n${piece}`);
        size += tokens;
      } else {
        chunks.push(piece);
        size = tokens;
      }
    }
  }
  return chunks;
}

/** The beginning and the end of a text, with at most `most` tokens. */
export async function withoutMiddle(text: string, most: number): Promise<string> {
  const tokens = await countTokens(text);
  if (tokens <= most) return text;
  // Half of the tokens are rarely in half of the text, so less is kept until it fits.
  for (let share = most / tokens; ; share *= 0.8) {
    const kept = Math.floor((text.length * share) / 2);
    const shortened = `${text.slice(0, kept)}\n\n[the middle is left out]\n\n${text.slice(text.length - kept)}`;
    if (kept === 0 || (await countTokens(shortened)) <= most) return shortened;
  }
}
