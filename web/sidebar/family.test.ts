import { expect, it } from 'vitest';
import type { OpenSession } from '../../domain/rendezvous.ts';
import { agesOf, familiesOf, type Family } from './family.ts';

const NOW = new Date(2026, 4, 20, 12);
const HOUR_MS = 60 * 60 * 1_000;

function session(session_id: string, parent_id: string | null = null, hoursAgo = 0): OpenSession {
  return {
    session_id,
    parent_id,
    project_id: null,
    phase: 'chatting',
    agent: 'site-builder',
    state: 'idle',
    waits_for: null,
    title: session_id,
    alias: null,
    updated_at: new Date(NOW.getTime() - hoursAgo * HOUR_MS).toISOString(),
  };
}

type Names = (string | Names)[];
const names = (families: readonly Family[]): Names =>
  families.flatMap((family) => [
    family.session.session_id,
    ...(family.branches.length > 0 ? [names(family.branches)] : []),
  ]);

it('H8 branches stand under the session that they were made from, also where that was listed later or is not listed', () => {
  const listed = [
    session('leaf', 'branch'),
    session('other'),
    session('branch', 'root'),
    session('root'),
    session('left', 'gone'),
  ];
  expect(names(familiesOf(listed))).toEqual(['other', 'root', ['branch', ['leaf']], 'left']);
});

it('H8 sessions are listed by age, newest first, and a family by its newest session', () => {
  const families = familiesOf([
    session('old', null, 24 * 30),
    session('week', null, 24 * 3),
    session('morning', null, 6),
    session('yesterday', null, 20),
    session('root', null, 24 * 40),
    session('branch', 'root', 1),
  ]);
  expect(agesOf(families, NOW).map((age) => [age.name, names(age.families)])).toEqual([
    ['Today', ['root', ['branch'], 'morning']],
    ['Yesterday', ['yesterday']],
    ['Last 7 days', ['week']],
    ['Older', ['old']],
  ]);
  expect(agesOf([], NOW)).toEqual([]);
});
