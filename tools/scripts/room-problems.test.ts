import { expect, it } from 'vitest';
import { factsOf } from './modules.ts';
import { wallProblems } from './room-problems.ts';

/** Problems of the folder `client`, whose rooms are send, live and wait, from the top down. */
function problemsOf(sources: Record<string, string>): string[] {
  const files = new Map(Object.entries(sources).map(([file, source]) => [file, factsOf(file, source)]));
  return wallProblems(files, 'client', ['send', 'live', 'wait'], (file) => file === 'client/index.ts');
}
const house = {
  'client/index.ts': `export { send } from './send/send.ts';`,
  'client/log.ts': `import { wait } from './wait/wait.ts';`,
  'client/send/send.ts': `import { follow } from '../live/follow.ts'; import '../log.ts'; import './submit.ts';`,
  'client/send/submit.ts': `export const submit = 1;`,
  'client/live/follow.ts': `import { wait } from '../wait/wait.ts';`,
  'client/live/read.ts': '',
  'client/wait/wait.ts': `import pLimit from 'p-limit'; import '../../domain/ids.ts';`,
  'client/wait/limit.ts': '',
};

it('H1 rooms that import only from those below them have no problem', () => {
  expect(problemsOf(house)).toEqual([]);
});

it('H1 an import that goes up is named, also one by import(), of a type, and through the folder’s root', () => {
  const up = 'client/live/read.ts: may not import client/send/submit.ts: send is above live';
  expect(problemsOf({ ...house, 'client/live/read.ts': `import type { A } from '../send/submit.ts';` })).toEqual([up]);
  expect(problemsOf({ ...house, 'client/live/read.ts': `const later = () => import('../send/submit.ts');` })).toEqual([
    up,
  ]);
  expect(problemsOf({ ...house, 'client/wait/limit.ts': `export * from '../log.ts';` })).toEqual([
    'client/wait/limit.ts: may not import client/log.ts: it imports from wait, which is not below wait',
  ]);
  const chain = { 'client/options.ts': `import './reads.ts';`, 'client/reads.ts': `import './live/read.ts';` };
  expect(problemsOf({ ...house, ...chain, 'client/live/follow.ts': `import '../options.ts';` })).toEqual([
    'client/live/follow.ts: may not import client/options.ts: it imports from live, which is not below live',
  ]);
});

it('H1 no room imports an entry, is unlisted, or has too few or too many files', () => {
  expect(problemsOf({ ...house, 'client/send/submit.ts': `import '../index.ts';` })).toEqual([
    'client/send/submit.ts: may not import client/index.ts: it is an entry',
  ]);
  expect(problemsOf({ ...house, 'client/new/new.ts': '' })).toEqual([
    'client/new/new.ts: client/new is not in rooms.ts',
  ]);
  expect(problemsOf({ ...house, 'client/live/parts/part.ts': '' })).toEqual([
    'client/live/parts/part.ts: a room has no folders',
  ]);
  const many = Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`client/wait/w${at}.ts`, '']));
  expect(problemsOf({ ...house, ...many })).toEqual(['client/wait: expected 2 to 13 files, has 14']);
  const { 'client/wait/limit.ts': _left, ...smaller } = house;
  expect(problemsOf(smaller)).toEqual(['client/wait: expected 2 to 13 files, has 1']);
});
