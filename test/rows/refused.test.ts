// What a provider refused, as an answer's rows say it.
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import { conversation, told, visible } from './conversation.ts';
import { freshRows, type Part, rows, Session } from './session.ts';

const db = await freshRows();

const refused = (...messages: string[]): Part => {
  const id = newId('prt');
  return { id, index: 0, type: 'data-refused', data: { type: 'data-refused', id, data: { messages } }, settled: true };
};

/** A session in which the last of these messages was refused, with what came before it. */
async function refusing(...texts: string[]): Promise<{ session: Session; part: Part }> {
  const session = await conversation(db, ...texts.slice(0, -1));
  const { run_seq: run } = (await session.say(texts.at(-1)!, { id: texts.at(-1)! })) as { run_seq: number };
  await session.claim(run, [0, run, 1]);
  const part = refused('gone', ...texts);
  expect(await session.settleRun(run, 'error', [0, run, 1], { parts: [part] })).toMatchObject({ state: 'error' });
  return { session, part };
}

it('R6 the end of a run as an error stores the last parts of its answer with it, and creates its row', async () => {
  const { session, part } = await refusing('one');
  const [, answer] = await session.messages();
  expect(answer).toMatchObject({ role: 'assistant', metadata: { model: 'test/model' } });
  expect(await session.parts(1)).toMatchObject([{ id: part.id, index: 0, type: 'data-refused', data: part.data }]);
  await session.settleRun(1, 'error', [0, 1, 1], { parts: [refused('two')] });
  expect(await session.parts(1), 'a repeat').toHaveLength(1);
});

it('R6 a run that was aborted, or that another attempt has, gets no parts', async () => {
  const session = await Session.saying(db, 'one', 'two');
  await session.claim(1, [0, 1, 2]);
  const answer = { parts: [refused('one')] };
  expect(await session.settleRun(1, 'error', [0, 1, 1], answer)).toEqual({ kind: 'lost' });
  await session.abort();
  expect(await session.settleRun(1, 'error', [0, 1, 2], answer)).toMatchObject({ state: 'aborted' });
  expect(await session.parts(1)).toEqual([]);
});

it('X4 a branch names the copies of the messages whose files were refused', async () => {
  const { session } = await refusing('one', 'two');
  await told(session, 'three');
  const { session_id: id } = await session.apply('branch', { from_message_id: 'three' });
  const copy = new Session(db, id as string);
  const [one, , two, answer] = await copy.messages();
  const [part] = await rows(db, 'SELECT data FROM chat_parts WHERE session_id = $1 AND message_id = $2', [
    copy.id,
    answer!['id'],
  ]);
  expect(part).toMatchObject({ data: { type: 'data-refused', data: { messages: [one!['id'], two!['id']] } } });
  expect(await visible(copy)).toHaveLength((await visible(session)).length - 1);
});
