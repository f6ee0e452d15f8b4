import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { transitionRows } from '../../domain/phases.ts';
import { STATE_MACHINE_DOC, withStateMachine } from '../../tools/scripts/state-diagram.ts';

const document = await readFile(STATE_MACHINE_DOC, 'utf8');

it('S4 the documented state machine is the one in the code (else run: node tools/scripts/state-diagram.ts)', () => {
  expect(withStateMachine(document)).toBe(document);
  const arrows = [...document.matchAll(/^ {4}(\w+) --> (\w+): (\w+)$/gm)].map(([, phase, next, event]) => ({
    phase,
    event,
    next,
  }));
  expect(arrows).toEqual(transitionRows());
});

it('S4 a document without its markers is not overwritten', () => {
  expect(() => withStateMachine('# Something else')).toThrow('markers');
});
