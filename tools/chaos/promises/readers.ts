import { isDeepStrictEqual } from 'node:util';
import type { UIMessage } from 'ai';
import { plain, reduced } from '../../test-kit/reduce.ts';
import type { Reading } from '../api.ts';
import { by, type Evidence, type PartRow } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';

/** The AI SDK's reduction of what a reader received equals the stored message, or a prefix of it if the reader was cut off. */
export async function checkReaders(ledger: Ledger, evidence: Evidence): Promise<void> {
  const parts = by(evidence.parts, (part) => part.message_id);
  const messages = new Map(evidence.messages.map((row) => [row.id, row]));
  for (const reading of evidence.readings.all) {
    if (reading.chunks.length === 0) continue;
    const where = `session ${reading.session}, message ${idOf(reading)}`;
    let message: UIMessage | undefined;
    try {
      message = await reduced(reading.chunks);
    } catch (error) {
      ledger.check('the AI SDK accepts what readers receive', where, false, () => String(error));
      continue;
    }
    const stored = plain((parts.get(idOf(reading)) ?? []).map(({ data }) => data));
    const read = (message?.parts ?? []) as PartRow['data'][];
    if (reading.whole) {
      const same = isDeepStrictEqual(read, stored);
      ledger.check('a complete reading equals what is stored', where, same, () => firstDifference(read, stored));
      const row = messages.get(idOf(reading));
      const expected = row && plain({ ...row.metadata, session_id: row.session_id });
      const told = row === undefined || isDeepStrictEqual(shown(message?.metadata), shown(expected));
      ledger.check('a complete reading has the stored metadata', where, told, () => ({
        read: message?.metadata,
        expected,
      }));
    } else {
      const fits = read.length <= stored.length && read.every((part, n) => isBeginning(part, stored[n]!));
      ledger.check('an interrupted reading is a prefix of what is stored', where, fits, () =>
        firstDifference(read, stored),
      );
    }
  }
  for (const driver of evidence.drivers) {
    for (const sent of driver.sent) {
      const refused = (sent.status ?? 0) >= 400;
      ledger.check('a waiting reader reads to the end', sent.id, !sent.awaited || refused || sent.read, () => sent);
    }
  }
}

function idOf({ chunks }: Reading): string {
  const start = chunks[0];
  return start?.type === 'start' ? (start.messageId ?? '?') : '?';
}

/** Metadata without what came later: what has hidden the message. */
function shown(metadata: unknown): object {
  const { hidden_by: _later, ...rest } = (metadata ?? {}) as { hidden_by?: unknown };
  return rest;
}

function isBeginning(read: PartRow['data'], stored: PartRow['data']): boolean {
  if (read.type !== stored.type) return false;
  if (typeof read['text'] === 'string') return String(stored['text']).startsWith(read['text']);
  const ended = ('output' in read && read['preliminary'] !== true) || 'errorText' in read;
  return ended ? isDeepStrictEqual(read, stored) : read['toolCallId'] === stored['toolCallId'];
}

function firstDifference(read: readonly PartRow['data'][], stored: readonly PartRow['data'][]): unknown {
  const n = stored.findIndex((part, at) => !isDeepStrictEqual(part, read[at]));
  return { parts: [read.length, stored.length], at: n, read: read[n], stored: stored[n] };
}
