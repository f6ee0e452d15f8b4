import { readFile } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../../tools/test-kit/cases.ts';
import { type MachineName, MACHINE_NAMES, machineRows, MACHINES, statusesOf } from './machines.ts';
import { progressBar } from './progress.ts';

/** The status after an event; undefined if the transition is illegal. */
function nextStatus(name: MachineName, status: string, event: string): string | undefined {
  return machineRows().find((row) => row.machine === name && row.status === status && row.event === event)?.next;
}

/** The machine's table as the docs have it: one row per status. */
function machineTable(name: MachineName): string {
  const lines = statusesOf(name).map((status) => {
    const rows = machineRows().filter((row) => row.machine === name && row.status === status);
    const cells = rows.map(({ event, next }) => `${event} → ${next}`);
    return `| ${String(status)} | ${cells.join(', ') || '–'} |`;
  });
  return ['| status | event → next status |', '| --- | --- |', ...lines].join('\n');
}

const EVENTS = [...new Set(machineRows().map(({ event }) => event)), 'toString', ''];

it('I5 random events never leave the tables, and no event leaves a final status', () => {
  fc.assert(
    fc.property(fc.constantFrom(...MACHINE_NAMES), fc.array(fc.constantFrom(...EVENTS)), (name, events) => {
      let status: string = MACHINES[name].first;
      for (const event of events) {
        const next = nextStatus(name, status, event);
        if (['completed', 'resolved', 'ended', 'crashed'].includes(status)) expect(next).toBeUndefined();
        status = next ?? status;
        expect(statusesOf(name)).toContain(status);
      }
    }),
    cases(),
  );
});

it('I5 every status can be reached, and every table ends in a final status', () => {
  for (const name of MACHINE_NAMES) {
    const reached = new Set<string>([MACHINES[name].first]);
    for (const from of reached) {
      for (const row of machineRows()) if (row.machine === name && row.status === from) reached.add(row.next);
    }
    expect(reached).toEqual(new Set<string>(statusesOf(name)));
    expect(
      statusesOf(name).some((status) => !machineRows().some((row) => row.machine === name && row.status === status)),
    ).toBe(true);
  }
});

it('I5 the documented tables are those of the code', async () => {
  const file = path.join(import.meta.dirname, '..', '..', 'docs', 'initiatives.md');
  // The formatter pads cells.
  const plain = (text: string) => text.replaceAll(/ +/g, ' ').replaceAll(/-{3,}/g, '---');
  const text = plain(await readFile(file, 'utf8'));
  for (const name of MACHINE_NAMES) expect(text, name).toContain(plain(machineTable(name)));
});

it('I2 the bar has 16 cells, rounded down: only all phases fill it', () => {
  const bar = (total: number, done: number, tasks: number, completed: number) =>
    progressBar({
      phases_total: total,
      phases_completed: done,
      current_phase_tasks: tasks,
      current_phase_completed: completed,
    });
  expect(bar(4, 1, 8, 5)).toBe('██████░░░░░░░░░░ 40%');
  expect(bar(2, 1, 3, 0)).toBe('████████░░░░░░░░ 50%');
  expect(bar(1, 0, 1_000, 999)).toBe('███████████████░ 99%');
  expect(bar(3, 3, 0, 0)).toBe('████████████████ 100%');
  expect(bar(3, 0, 7, 0)).toBe('░░░░░░░░░░░░░░░░ 0%');
  fc.assert(
    fc.property(fc.nat({ max: 40 }), fc.nat({ max: 40 }), fc.nat({ max: 500 }), fc.nat({ max: 500 }), (a, b, c, d) => {
      const [total, done] = [Math.max(a, b, 1), Math.min(a, b)];
      const [tasks, completed] = done === total ? [0, 0] : [Math.max(c, d, 1), Math.min(c, Math.max(c, d, 1) - 1, d)];
      const text = bar(total, done, tasks, completed);
      const share = done / total + (tasks === 0 ? 0 : completed / tasks / total);
      expect(text).toMatch(/^█*░* \d+%$/);
      expect(text.indexOf(' ')).toBe(16);
      expect(text.endsWith(' 100%')).toBe(done === total);
      expect(text.startsWith('█'.repeat(16))).toBe(done === total);
      expect(Math.abs(Number(/(\d+)%/.exec(text)![1]) - share * 100)).toBeLessThanOrEqual(1);
    }),
    cases(),
  );
});
