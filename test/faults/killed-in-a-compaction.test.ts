// A worker crashes in a compaction, by hand or within a turn; another one takes over. What is stored is whole: the summary, what it hides
// and the prune of what stays.
import { describe, expect, it } from 'vitest';
import { callTool, fail, report, say } from '../../tools/test-kit/model-actions.ts';
import { updates } from '../../workflows/definitions.ts';
import { unsummarizedAgents } from './agent.ts';
import { CrashGroup, type CrashCase, type Saying } from './crash-cases.ts';
import type { CrashPoint } from './worker-process.ts';

const group = new CrashGroup();

async function turns({ session }: CrashCase, count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await session.ended(await session.send(`go, ${session.id}`), 50_000);
}

describe.concurrent('a worker killed in a compaction by hand', () => {
  /** Three turns, then a compaction by hand, at which the worker crashes. The fourth request is for the summary. */
  const compaction = (crashesAt: CrashPoint, summaries: number) =>
    group.case({
      crashesAt,
      model: (nth) => [say(nth < 3 ? 'Hello there. '.repeat(100) : 'They said hello.')],
      play: async (the) => {
        await turns(the, 3);
        return the.session.command(updates.compact);
      },
      afterwards: async (the, { run_seq: run, message_id: id }) => {
        expect((await the.session.ended(run)).state).toBe('finished');
        const { rows } = await the.runtime.db.query<{ id: string; hidden_by: { id: string } | null }>(
          `SELECT id, metadata -> 'hidden_by' AS hidden_by FROM chat_messages WHERE session_id = $1 ORDER BY position`,
          [the.session.id],
        );
        expect(rows.map(({ hidden_by: by }) => by?.id ?? null)).toEqual([id, id, null, null, null, null, null]);
        expect(rows[2]!.id).toBe(id);
        expect(the.requests()).toHaveLength(3 + summaries);
      },
    });

  it(
    'X8 after it was noted that no summary could be made: the run ends as it would have',
    group.case({
      crashesAt: { after: 'note_compaction' },
      model: (nth) => [nth < 3 ? say('Hello there. '.repeat(100)) : fail(401)],
      play: async (the) => {
        await turns(the, 3);
        return the.session.command(updates.compact);
      },
      afterwards: async (the, { run_seq: run }) => {
        const ended = await the.session.ended(run);
        expect(ended).toMatchObject({ state: 'error', error_code: 'CompactionFailed' });
        expect(ended.error_message).toMatch(/^The conversation could not be compacted: .+ Try again/);
        expect(the.requests()).toHaveLength(4);
      },
    }),
  );
  it(
    'X8 before the run ends because the model of the summarizer is not configured: it ends so, and nothing has changed',
    group.case({
      crashesAt: { before: 'settle_run', holding: 'ModelNotConfigured' },
      model: () => [say('Hello there. '.repeat(100))],
      play: async (the) => {
        await turns(the, 3);
        const set = 'UPDATE chat_sessions SET agent = $2 WHERE session_id = $1';
        await the.runtime.db.query(set, [the.session.id, unsummarizedAgents[0].id]);
        return the.session.command(updates.compact);
      },
      afterwards: async (the, { run_seq: run }) => {
        const ended = await the.session.ended(run);
        expect(ended).toMatchObject({ state: 'error', error_code: 'ModelNotConfigured' });
        expect(ended.error_message).toContain('"elsewhere/none" is not configured');
        expect(the.requests()).toHaveLength(3);
        const { rows } = await the.runtime.db.query<{ messages: number; hidden: number }>(
          `SELECT count(*)::integer AS messages, count(hidden_at)::integer AS hidden FROM chat_messages WHERE session_id = $1`,
          [the.session.id],
        );
        expect(rows).toEqual([{ messages: 6, hidden: 0 }]);
      },
    }),
  );
  it('X5 before it was stored: it is made again, once', compaction({ before: 'store_compaction' }, 2));
  it('X5 after it was stored: it is not made again', compaction({ after: 'store_compaction' }, 1));
  it('X5 after it was claimed', compaction({ after: 'claim_compaction' }, 1));
});

describe.concurrent('a worker killed in a compaction within a turn', () => {
  const long = 'Hello there. '.repeat(100);
  /** More than the model's window leaves for a conversation. */
  const full = report({ input: 125_000, output: 10 });
  const looks = Array.from({ length: 7 }, (_, n) => callTool(`call_${n}`, 'look', { at: 'word '.repeat(600) }));

  /**
   * Three turns, the last of which has seven large outputs and fills the window. The fourth then needs a summary, which frees too
   * little, so that two outputs that stay are pruned as well. The fifth request is the first for a summary.
   */
  const compaction = (crashesAt: CrashPoint, summaries: number) => {
    const before: Saying = (nth) => [[say(long)], [say(long)], looks, [say('Seen.'), full]][nth]!;
    return group.case({
      crashesAt,
      model: (nth) => (nth < 4 ? before(nth) : [say(nth < 4 + summaries ? 'They said hello.' : 'Going on.')]),
      play: async (the) => {
        await turns(the, 3);
        const { run, message } = await the.session.accept(`go on, ${the.session.id}`);
        return { run, woken: the.session.wake(run, message) };
      },
      afterwards: async (the, { run, woken }) => {
        await woken;
        expect((await the.session.ended(run)).state).toBe('finished');
        expect(the.requests()).toHaveLength(4 + summaries + 1);
        const { rows } = await the.runtime.db.query<{ is_hidden: boolean; type: string; pruned: number | null }>(
          `SELECT m.hidden_at IS NOT NULL AS is_hidden, p.type, jsonb_array_length(p.data #> '{data,outputs}') AS pruned
             FROM chat_messages m JOIN chat_parts p ON p.session_id = m.session_id AND p.message_id = m.id
            WHERE m.session_id = $1 AND p.type LIKE 'data-%' ORDER BY m.position`,
          [the.session.id],
        );
        expect(rows).toEqual([
          { is_hidden: false, type: 'data-compaction', pruned: null },
          { is_hidden: false, type: 'data-prune', pruned: 2 },
        ]);
        expect((await the.session.run(run)) as unknown).toMatchObject({
          compaction: { state: 'summarized', turns: 1 },
        });
      },
    });
  };

  it('X5 X8 after the step had asked for it', compaction({ after: 'note_compaction' }, 1));
  it('X5 X8 after it was claimed', compaction({ after: 'claim_compaction' }, 1));
  it('X5 X8 before it was stored: it is made again, once', compaction({ before: 'store_compaction' }, 2));
  it(
    'X5 X8 after it was stored: it is not made again, and the prune is there',
    compaction({ after: 'store_compaction' }, 1),
  );
});
