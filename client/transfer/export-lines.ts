import type { Db } from '../../store/db.ts';
import { exportedLines, exportedSessionLine, type ExportPlace } from '../../store/transfer.ts';
import { sessionNotFound } from '../refusal-errors.ts';

/**
 * The lines of a session's export, in pieces of about 1 MiB, each read when the reader asks for it. What is added meanwhile is
 * left out.
 * @throws {PerdureError} `SessionNotFound`, also if the session is erased meanwhile
 */
export async function* exportLines(db: Db, sessionId: string): AsyncGenerator<string> {
  const session = await exportedSessionLine(db, sessionId);
  if (!session) throw sessionNotFound();
  yield `${session.line}\n`;
  let place: ExportPlace = { at: 0, part: -1 };
  for (;;) {
    const lines = await exportedLines(db, sessionId, place, session.last);
    const end = lines.at(-1);
    if (end === undefined) break;
    place = end;
    yield lines.map(({ line }) => `${line}\n`).join('');
  }
  if (place.at < session.last || (await exportedSessionLine(db, sessionId)) === undefined) throw sessionNotFound();
}
