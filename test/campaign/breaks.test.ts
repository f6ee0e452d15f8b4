// The negative controls replace functions of the database, which change over time: these tests check that they still break
// something. docs/chaos.md shows that a campaign then finds it.
import { expect, it } from 'vitest';
import { newId } from '../../domain/ids.ts';
import type { Fence } from '../../domain/runs.ts';
import { freshRows, Session, textPart } from '../rows/session.ts';
import { breakOf } from '../../tools/chaos/breaks.ts';

const ZOMBIE: Fence = [1, 1, 1];
const NEXT: Fence = [1, 1, 2];

it('Q1 without the fence a zombie writes', async () => {
  const db = await freshRows();
  await breakOf('fence').prepare?.(db);
  const session = await Session.saying(db, 'hello');
  await session.claim(1, ZOMBIE);
  await session.claim(1, NEXT);
  expect(await session.append(1, ZOMBIE, [textPart(0, 'late')])).toBe('live');
  expect(await session.settleStep(1, ZOMBIE, { end: true })).toMatchObject({ state: 'finished' });
});

it('Q1 without idempotency records a command is carried out twice, and so is a tool call', async () => {
  const db = await freshRows();
  await breakOf('receipt').prepare?.(db);
  const session = await Session.at('verifying', db);
  const command = newId('cmd');
  expect(await session.raise('publish', command)).toMatchObject({ ok: true });
  expect(await session.raise('publish', command)).toMatchObject({ ok: false });
  const run = await session.runWithCalls(['call_1'], [1, 1, 1]);
  expect(await session.beginTool(run, [1, 2, 1], 'call_1')).toMatchObject({ kind: 'begun' });
  expect(await session.beginTool(run, [1, 2, 2], 'call_1')).toMatchObject({ kind: 'begun' });
});
