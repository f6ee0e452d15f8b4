import { expect, it } from 'vitest';
import { type InitiativeBrief, initiativeSection } from './initiative-brief.ts';

const brief: InitiativeBrief = {
  title: 'User\n# Authentication',
  status: 'active',
  next_action: 'Go on.\n',
  review: false,
  position: { phase: 2, phase_name: 'JWT', plan: 3, plan_name: 'Rotation', task: 'Endpoint', status: 'in_progress' },
  decisions: { count: 1, items: [{ date: '2026-01-14', context: 'Storage', decision: 'cookie', reason: 'XSS' }] },
  blockers: { count: 1, items: [{ id: 'block-001', description: 'x'.repeat(2_000) }] },
};

it('I7 a joined session’s prompt has position, decisions and active blockers, one line each', () => {
  expect(initiativeSection(brief)).toBe(
    [
      '# Initiative',
      '',
      'This session works on an initiative. What follows are its records; read more with the tool `initiative_read`.',
      '',
      '- Title: User # Authentication',
      '- Position: Phase 2 (JWT), Plan 3 (Rotation), Task: Endpoint (in_progress)',
      '- Next action: Go on.',
      '',
      '## Decisions',
      '',
      '- 2026-01-14 · Storage: cookie (XSS)',
      '',
      '## Active blockers',
      '',
      `- block-001: ${'x'.repeat(300)}…`,
    ].join('\n'),
  );
});

it('I7 the prompt says what it leaves out, and that a review is required', () => {
  const text = initiativeSection({ ...brief, review: true, decisions: { ...brief.decisions, count: 30 } });
  expect(text).toContain('## Decisions (the newest 1 of 30)');
  expect(text).toContain('- Review required');
  const none = initiativeSection({
    ...brief,
    next_action: ' ',
    decisions: { count: 0, items: [] },
    blockers: { count: 0, items: [] },
  });
  expect(none).not.toMatch(/##|Next action/);
});

it('I7 the prompt stays short: the newest decisions and blockers that fit', () => {
  const long = 'x'.repeat(300);
  const decisions = Array.from({ length: 20 }, (_, n) => {
    return { date: '2026-01-14', context: `Decision ${n}.`, decision: long, reason: long };
  });
  const blockers = Array.from({ length: 20 }, (_, n) => ({ id: `block-${n}.`, description: long }));
  const text = initiativeSection({
    ...brief,
    decisions: { count: 30, items: decisions },
    blockers: { count: 20, items: blockers },
  });
  expect(text.length).toBeLessThan(10_000);
  expect(text).toMatch(/## Decisions \(the newest 6 of 30\)\n\n- 2026-01-14 · Decision 14\./);
  expect(text).toContain('Decision 19.');
  expect(text).toMatch(/## Active blockers \(the newest 12 of 20\)\n\n- block-8\./);
});
