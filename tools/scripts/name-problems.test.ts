import { expect, it } from 'vitest';
import { factsOf } from './modules.ts';
import { nameProblems } from './name-problems.ts';

function problemsOf(sources: Record<string, string>, bySubject: readonly string[] = []): string[] {
  const files = new Map(Object.entries(sources).map(([file, source]) => [file, factsOf(file, source)]));
  return nameProblems(files, (file) => file.endsWith('/index.ts'), bySubject);
}

it('H1 a file has the name of an export, of a part of it, or of its room', () => {
  const fine = {
    'agent/models/model-catalog.ts': `export class ModelCatalog {} export const x = 1;`,
    'domain/max-answer.ts': `export const MAX_ANSWER = 1;`,
    'client/send/erasure.ts': `export function requestErasure() {}`,
    'host/routes/chat.ts': `export const chatRoutes = [];`,
    'client/rendezvous/rendezvous.ts': `export function follow() {}`,
    'store/runs.ts': `export function settle() {}`,
    'client/index.ts': `export { x } from './send/erasure.ts';`,
    'web/main.ts': `console.log();`,
  };
  expect(problemsOf(fine, ['store/'])).toEqual([]);
  expect(problemsOf({}, ['store/'])).toEqual(['store/: is in BY_SUBJECT of rooms.ts, but there is no such file']);
  expect(problemsOf({ 'client/send/helpers.ts': `export const wait = 1; export type Plan = 1;` })).toEqual([
    'client/send/helpers.ts: is named after none of its exports (wait, Plan)',
  ]);
  const listed = { 'client/send/helpers.ts': `const wait = 1; export { wait as pause }; export default class Loop {}` };
  expect(problemsOf(listed)).toEqual(['client/send/helpers.ts: is named after none of its exports (pause, Loop)']);
});

it('H1 a second file or export of one name is named', () => {
  const first = {
    'client/live/page.ts': `export type Page = 1;`,
    'client/index.ts': `export * from './live/page.ts';`,
  };
  expect(problemsOf({ ...first, 'host/page.ts': `export class Page {}` })).toEqual([
    'Page: is exported by client/live/page.ts, host/page.ts',
  ]);
  expect(problemsOf({ ...first, 'client/send/page.ts': `export const PAGE = 1;` })).toEqual([
    'client/**/page: is the name of client/live/page.ts, client/send/page.ts',
  ]);
  const overloaded = `export function pick(a: 1): 1; export function pick(a: 2): 2; export function pick(a: number) { return a; }`;
  expect(problemsOf({ 'domain/pick.ts': overloaded })).toEqual([]);
});
