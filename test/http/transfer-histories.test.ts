// Random histories, exported, imported and exported again, through HTTP.
import fc from 'fast-check';
import type pg from 'pg';
import { beforeAll, expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { cases } from '../../tools/test-kit/cases.ts';
import { startHost, type TestCaller } from '../../tools/test-kit/host.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { freshDatabase } from '../../tools/test-kit/servers.ts';
import { compact, pruneByHand } from '../rows/compacting.ts';
import { everything } from '../rows/conversation.ts';
import { act, action, type Model, newModel } from '../rows/going-back.ts';
import { rows, Session, textPart } from '../rows/session.ts';

let db: pg.Pool;
let ada: TestCaller;
beforeAll(async () => {
  const databaseUrl = await freshDatabase();
  ada = (await startHost({ databaseUrl })).as('ada');
  db = patientPool(databaseUrl);
  afterFile(() => db.end());
});

/** What happens to a conversation besides what the model knows. */
const more = fc.record({
  kind: fc.constantFrom('file', 'tool', 'prune', 'discarded', 'rewind', 'unrewind', 'edit', 'cancel', 'open'),
  at: fc.nat(),
});

async function attached(session: Session): Promise<string> {
  const init = { method: 'POST', body: newId('msg'), headers: { 'content-type': 'text/plain' } };
  const response = await ada.fetch(`/api/sessions/${session.id}/attachments`, init);
  expect(response.status).toBe(201);
  return ((await response.json()) as { url: string }).url;
}

const file = (url: string) => ({ type: 'file', mediaType: 'text/plain', url });

/** A user message by a random number; undefined: there is none. */
async function userMessage(session: Session, at: number): Promise<string | undefined> {
  const users = (await session.messages()).filter(({ role }) => role === 'user');
  return users[at % Math.max(1, users.length)]?.['id'] as string | undefined;
}

let fences = 1_000_000;

async function begin(session: Session): Promise<{ run: number; fence: Fence } | undefined> {
  const runs = await session.runs();
  const queued = runs.find(({ state }) => state === 'queued');
  if (queued === undefined || runs.some(({ state }) => state === 'running')) return undefined;
  const fence: Fence = [0, (fences += 1), 1];
  await session.claim(queued['seq'] as number, fence);
  return { run: queued['seq'] as number, fence };
}

/** Ends what is open or was gone back to, which compactions and prunes by hand wait for. */
async function settle(session: Session): Promise<void> {
  await session.say('go on');
  for (;;) {
    await begin(session);
    const running = (await session.runs()).find(({ state }) => state === 'running');
    if (running === undefined) return;
    await session.settleRun(running['seq'] as number, 'aborted');
  }
}

async function doMore(session: Session, { kind, at }: { kind: string; at: number }): Promise<void> {
  const target = await userMessage(session, at);
  switch (kind) {
    case 'file': {
      const part = { id: newId('prt'), type: 'file', data: file(await attached(session)) };
      await session.say('', { parts: [part] });
      return;
    }
    case 'tool': {
      await session.say('with a tool');
      const begun = await begin(session);
      if (begun === undefined) return;
      const { run, fence } = begun;
      const call = newId('call');
      const part = { id: newId('prt'), index: 0, type: 'tool-x', tool_call_id: call, tool_state: 'input-available' };
      const data = { type: 'tool-x', toolCallId: call, state: 'input-available', input: { n: at / 7 } };
      await session.settleStep(run, fence, {
        parts: [{ ...part, data, settled: true }],
        toolCalls: [{ tool_call_id: call, name: 'x' }],
        usage: { input: 7, output: 3, cache_read: 1 },
        cost: at / 1e6,
      });
      await session.beginTool(run, fence, call);
      const output = { content: [file(await attached(session))] };
      await session.finishTool(run, fence, call, { data: { ...data, state: 'output-available', output } });
      await session.settleRun(run, 'error');
      return;
    }
    case 'prune':
      await settle(session);
      await pruneByHand(session, newId('call'));
      return;
    case 'discarded':
      await settle(session);
      await compact(session, { isUsed: false, usage: { input: 5 }, cost: 0.1 });
      return;
    case 'rewind':
      if (target !== undefined) await session.rewind(target, { abort: true });
      return;
    case 'unrewind':
      await session.unrewind();
      return;
    case 'edit':
      if (target !== undefined) await session.edit(target, 'another text');
      return;
    case 'cancel':
      if (target !== undefined) await session.cancelQueued(target);
      return;
    default: {
      const begun = await begin(session);
      if (begun) await session.append(begun.run, begun.fence, [textPart(0, 'half an ans', newId('prt'))]);
    }
  }
}

async function exported(session: Session): Promise<string> {
  const response = await ada.fetch(`/api/sessions/${session.id}/export`);
  expect(response.status).toBe(200);
  return response.text();
}

async function imported(body: string): Promise<Session> {
  const response = await ada.fetch('/api/import', { method: 'POST', body });
  const answer = (await response.json()) as Record<string, string>;
  expect({ status: response.status, detail: answer['detail'] }).toEqual({ status: 201, detail: undefined });
  return new Session(db, answer['session_id']);
}

async function contentsOf(session: Session) {
  return rows(
    db,
    `SELECT attachment_id, bytes FROM attachments JOIN attachment_chunks USING (content_id)
      WHERE session_id = $1 AND 'perdure:' || attachment_id IN (SELECT file_urls($1)) ORDER BY 1`,
    [session.id],
  );
}

/** The number of a rewind's event is another one in the log of an import. */
const withoutIds = (text: string) => text.replaceAll(/"id": "(imported:)?event:\d+"/g, '"id": "event"');

it('T7 whatever has happened in a session, its export is imported, and gives the same bytes again apart from ids', async () => {
  const seen = { files: 0, hidden: 0, discarded: 0, summaries: 0, prunes: 0, open: 0 };
  const count = (name: keyof typeof seen, text: string, pattern: RegExp) => {
    seen[name] += text.match(pattern)?.length ?? 0;
  };
  await fc.assert(
    fc.asyncProperty(
      fc.array(action, { maxLength: 20, size: 'max' }),
      fc.array(more, { maxLength: 12, size: 'max' }),
      async (actions, rest) => {
        const model: Model = newModel(await Session.at('chatting', db));
        for (const each of actions) await act(model, each);
        const { session } = model;
        for (const each of rest) await doMore(session, each);
        const text = await exported(session);
        count('files', text, /"kind": "attachment"/g);
        count('hidden', text, /"hidden_by"/g);
        count('discarded', text, /^\{"id": "(\w+)", [^\n]*"hidden_by": \{"id": "\1", "cause": "compaction"\}/gm);
        count('summaries', text, /"type": "data-compaction"/g);
        count('prunes', text, /"type": "data-prune"/g);
        count('open', text, /half an ans/g);

        const copy = await imported(text);
        const again = await exported(copy);
        expect(withoutIds(again)).toBe(withoutIds(text));
        expect(await contentsOf(copy)).toEqual(await contentsOf(session));
        const shown = async (of: Session) => (await everything(of)).filter((row) => row['hidden_at'] === null);
        expect((await shown(copy)).map(({ id }) => id)).toEqual((await shown(session)).map(({ id }) => id));
        const { prompt_tokens, completion_tokens, cache_read, cost_usd } = await session.chat();
        expect(await copy.chat()).toMatchObject({ prompt_tokens, completion_tokens, cache_read, cost_usd });
        expect(await exported(await imported(again))).toBe(again);
      },
    ),
    cases(60),
  );
  expect(Object.entries(seen).filter(([, times]) => times === 0)).toEqual([]);
});
