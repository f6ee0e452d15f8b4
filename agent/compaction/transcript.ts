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

/** Cuts a text into pieces of at most `most` tokens. */
async function piecesOf(text: string, most: number): Promise<string[]> {
  if ((await countTokens(text)) <= most) return [text];
  const half = Math.floor(text.length / 2);
  return [...(await piecesOf(text.slice(0, half), most)), ...(await piecesOf(text.slice(half), most))];
}

/** Joins texts, in order, into as few as possible of at most `most` tokens each. */
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
