import { expect, it } from 'vitest';
import { fillPromptTemplate, isTemplate } from './prompt-template.ts';
import type { Json } from './text.ts';

const state: Record<string, Json> = {
  name: 'Ada',
  'user:theme': 'dark',
  'app:limits': { a: [1] },
  'temp:n': 0,
  $: 'x',
};
const fill = (prompt: string) => fillPromptTemplate(prompt, (name) => state[name]);

it.each([
  ['{name} likes {user:theme}', 'Ada likes dark'],
  ['{app:limits} {temp:n}', '{"a":[1]} 0'],
  ['[{user:none?}] [{name?}]', '[] [Ada]'],
  ['{{name}} and {{user:none?}}', '{name} and {user:none?}'],
])('K6 the prompt %j becomes %j', (prompt, filled) => {
  expect(fill(prompt)).toBe(filled);
  expect(isTemplate(prompt)).toBe(true);
});

it.each(['{"a": {"b": 1}}', '{}', '{ name }', '{a b}', '{1}', '{other:key}', '{user:}', 'if (a) { b; }', '${', '{$}'])(
  'K6 the braces of %j are text',
  (prompt) => {
    expect(fill(prompt)).toBe(prompt);
    expect(isTemplate(prompt)).toBe(false);
  },
);

it('K6 a key that is not set is named, and a value is not a template again', () => {
  expect(() => fill('{name} {user:none}')).toThrow(
    'the agent\'s prompt needs the state key "user:none", which is not set',
  );
  expect(fillPromptTemplate('{a}', () => '{b} $1 $&')).toBe('{b} $1 $&');
});
