import { isDeepStrictEqual } from 'node:util';
import { by, type Evidence, type MessageRow, type PartRow, type Rows } from '../evidence.ts';
import type { Ledger } from '../ledger.ts';

/** A branch holds copies of its parent's messages up to one of them, at their positions, and hides none. */
export function checkBranches(
  ledger: Ledger,
  { messages, parts, branches }: Pick<Evidence, 'messages' | 'parts' | 'branches'>,
): void {
  const originals = new Map(messages.map((row) => [`${row.session_id}/${row.position}`, row]));
  const ids = new Map(messages.map((row) => [`${row.session_id}/${row.id}`, row]));
  const partsOf = by([...parts, ...branches.parts], (part) => `${part.session_id}/${part.message_id}`);
  const contents = (row: MessageRow | undefined) =>
    (row && partsOf.get(`${row.session_id}/${row.id}`)?.map(({ data }) => withoutIds(data))) ?? [];
  const copies = by(branches.messages, (row) => row.session_id);
  for (const { session_id, parent_id, parent_message_id } of branches.chats) {
    const copied = copies.get(session_id) ?? [];
    const end = ids.get(`${parent_id}/${parent_message_id}`)?.position;
    const where = `branch ${session_id} of ${parent_id}`;
    ledger.check('a branch ends at its message', where, copied.at(-1)?.position === end, () => [copied, end]);
    for (const copy of copied) {
      const original = originals.get(`${parent_id}/${copy.position}`);
      const same =
        copy.hidden_at === null &&
        original?.role === copy.role &&
        isDeepStrictEqual(contents(copy), contents(original));
      ledger.check('a branch holds what its parent holds', `${where}, ${copy.id}`, same, () => [
        contents(copy),
        contents(original),
      ]);
    }
  }
}

/** A summary names the message after it, and a refusal those with its files: they have other ids in the copy. */
function withoutIds(data: PartRow['data']): Rows['parts'][number]['data'] {
  if (data.type === 'data-refused') return { ...data, data: { ...(data['data'] as object), messages: [] } };
  return data.type === 'data-compaction' ? { ...data, data: { ...(data['data'] as object), tail_start_id: '' } } : data;
}
