// What it costs to judge whether a conversation is to be compacted.
import { expect, it } from 'vitest';
import { readSession } from '../../store/sessions.ts';
import { TestSession } from '../../tools/test-kit/session.ts';
import { agent, startSmall, talking, tell, visible } from './kit.ts';

/** Of `openai/small`. */
const USABLE = 1_600;

it('X5 judging costs no statement: a turn that is counted has those of one that is below the bound of bytes', async () => {
  const runtime = await startSmall({
    agents: [agent('talker')],
    settings: { sweepIntervalMs: 3_600_000 },
    script: talking(),
  });
  const session = await TestSession.open(runtime, { agent: 'talker' });
  await tell(session, ['one']);
  const { db } = runtime;
  const plain = db.query.bind(db) as (...args: unknown[]) => Promise<unknown>;
  const statements: string[] = [];
  const noting = (...given: unknown[]) => {
    const { name = '', text = '', values = [] } = given[0] as { name?: string; text?: string; values?: unknown[] };
    // How many writes a stream needs depends on its speed.
    if (!values.includes(session.id) || name.includes('append_stream')) return plain(...given);
    statements.push((name || text).replace(/ and notify$/, ''));
    return plain(...given);
  };
  /** The statements about the session in a turn, and the most tokens that it can have. */
  const turn = async (text: string) => {
    const { window } = (await readSession(db, session.user, session.id))!;
    db.query = noting as typeof db.query;
    try {
      await tell(session, [text]);
    } finally {
      db.query = plain as typeof db.query;
    }
    return { statements: statements.splice(0).toSorted(), most: window!.tokens! + Buffer.byteLength(text) };
  };
  const below = await turn('two');
  const counted = await turn('data '.repeat(400));
  expect(below.most).toBeLessThan(USABLE);
  expect(counted.most).toBeGreaterThan(USABLE);
  expect(below.statements).toEqual(['call claim_step', 'call settle_step']);
  expect(counted.statements).toEqual(below.statements);
  expect(await visible(runtime, session), 'it was judged to fit').not.toContain('data-compaction');
});
