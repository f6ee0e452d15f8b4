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
