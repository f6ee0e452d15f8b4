import { parseSync } from 'oxc-parser';
import { expect, it } from 'vitest';
import { changingVariables } from './changing-variables.ts';

const inCode = (code: string) => changingVariables(parseSync('module.ts', code).program);

it('W5 finds variables that workflows of one worker could change for each other', () => {
  expect(inCode('let last = 0; export let next = 1; var old;')).toEqual(['last', 'next', 'old']);
  expect(inCode('const seen = new Map<string, number>(); export const all = new Set();')).toEqual(['seen', 'all']);
});

it('W5 constants, read-only collections and variables of functions are not found', () => {
  expect(inCode('export const a = 1; const names: ReadonlySet<string> = new Set(["a"]);')).toEqual([]);
  expect(inCode('function count() { let n = 0; return ++n; } class C { x = new Map(); }')).toEqual([]);
  expect(inCode('export type T = string; declare let ambient: number; import "x"; export * from "y";')).toEqual([]);
});
