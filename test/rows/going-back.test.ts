// Random sequences of messages, turns, rewinds, un-rewinds, edits, new answers, compactions and branches, and of messages that are
// taken back, against a plain model.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../../tools/test-kit/cases.ts';
import { act, action, linesOf, nameOf, newModel, visibleRows } from './going-back.ts';
import { freshRows, type Row, rows, Session } from './session.ts';

const db = await freshRows();

/** The sums of all answers, visible and hidden. */
async function spent(session: Session): Promise<Row> {
  const [sums] = await rows(
    db,
    `SELECT coalesce(sum((metadata #>> '{usage,input}')::int), 0)::int AS prompt_tokens,
            coalesce(sum((metadata #>> '{usage,output}')::int), 0)::int AS completion_tokens
       FROM chat_messages WHERE session_id = $1 AND role = 'assistant'`,
    [session.id],
  );
  return sums!;
}

it('X1 X4 U2 visible messages, what an un-rewind and taking a message back restore, and sums are those of a plain model', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 1, maxLength: 30, size: 'max' }), async (actions) => {
      const model = newModel(await Session.at('chatting', db));
      for (const each of actions) {
        await act(model, each);
        const shown = await visibleRows(model.session);
        expect(shown.map(({ id, role, text }) => (role === 'user' ? id : text))).toEqual(
          linesOf(model).map((line) => ('user' in line ? line.user : nameOf(line))),
        );
        expect(await model.session.chat()).toMatchObject(await spent(model.session));
      }
    }),
    cases(200),
  );
});
