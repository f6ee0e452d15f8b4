import { gunzipSync } from 'node:zlib';
import { unpackTar } from 'modern-tar';
import { expect, it } from 'vitest';
import type { InitiativeView } from '../../wire/initiative-views.ts';
import { planningArchive, planningFiles } from './planning-files.ts';

const time = '2026-01-14T09:00:00Z';
const task = {
  ...{ task_id: 'tsk_1', phase: 1, plan: 1, wave: 1, number: 1, name: 'Draw', status: 'completed' as const },
  ...{ assigned_to: 'session-001', assigned_at: time, last_progress_at: time, note: null, completed_at: time },
};
const decision = {
  ...{
    decision_id: 'dec_1',
    kind: 'technology' as const,
    date: '2026-01-14',
    context: 'JWT',
    decision: 'jose, over jsonwebtoken!',
  },
  ...{ reason: 'Types\nand more', alternatives_considered: ['none'], reversible: true },
};
const view: InitiativeView = {
  initiative: {
    ...{ initiative_id: 'ini_1', user_id: 'ada', title: 't', status: 'active', next_action: '', project_id: null },
    resume_context: { files_modified_this_session: [], key_implementations: [], open_questions: [] },
    ...{ workspace_root: null, review: null, version: 1, created_at: time, updated_at: time },
  },
  state: {
    position: {
      phase: 1,
      phase_name: 'p',
      plan: 2,
      plan_name: 'l2',
      task_id: 'tsk_2',
      task: 'Build',
      wave: 1,
      status: 'open',
    },
    progress: { phases_total: 1, phases_completed: 0, current_phase_tasks: 2, current_phase_completed: 1 },
    updated_at: time,
  },
  phases: [
    {
      ...{ phase: 1, name: 'Design', status: 'active' },
      plans: [
        { plan: 1, name: 'Pages', body: '## How\n', summary: '- Draw', status: 'completed', tasks: [task] },
        {
          plan: 2,
          name: 'l2',
          body: '',
          summary: null,
          status: 'active',
          tasks: [{ ...task, name: 'Build', status: 'open' }],
        },
      ],
    },
  ],
  decisions: [decision, { ...decision, decision_id: 'dec_2' }, { ...decision, decision: 'כן' }],
  blockers: [
    {
      ...{ id: 'block-001', status: 'resolved', description: 'OAuth creds', identified_at: time, affects: ['Phase 3'] },
      ...{
        blocked_tasks: [{ task_id: 'tsk_2', name: 'Build' }],
        workaround: null,
        workaround_tasks: [],
        resolution: 'came',
      },
      resolved_at: time,
    },
  ],
  sessions: [
    {
      ...{
        id: 'session-001',
        agent: 'worker',
        session_id: null,
        status: 'ended',
        started: time,
        ended: time,
        working_on: null,
      },
      ...{ context_usage: 0.62, completed: ['Draw'], issues: [], handoff_reason: null, notes: 'fine' },
    },
  ],
};

it('I2 the export has STATE.md, plans, summaries of completed ones, decisions, blockers and work sessions', () => {
  const files = planningFiles(view);
  expect(files.map(({ path }) => path)).toEqual([
    ...['STATE.md', '1-1-PLAN.md', '1-1-SUMMARY.md', '1-2-PLAN.md'],
    ...[
      'decisions/2026-01-14-jose-over-jsonwebtoken.md',
      'decisions/2026-01-14-jose-over-jsonwebtoken-2.md',
      'decisions/2026-01-14-x.md',
    ],
    ...['blockers/block-001-oauth-creds.md', 'sessions/session-001.md'],
  ]);
  const text = Object.fromEntries(files.map((file) => [file.path, file.text]));
  expect(text['STATE.md']).toMatch(/^# STATE.md\ninitiative: ini_1\n/);
  expect(text['1-1-PLAN.md']).toBe(
    '# Phase 1, Plan 1: Pages\n\n- Phase: Design\n- Tasks:\n  - [x] Draw (wave 1, completed, tsk_1)\n\n## How\n',
  );
  expect(text['1-1-SUMMARY.md']).toBe('# Pages\n\n- Draw\n');
  expect(text['decisions/2026-01-14-jose-over-jsonwebtoken.md']).toBe(
    '# jose, over jsonwebtoken!\n\n- Date: 2026-01-14\n- Kind: technology\n- Context: JWT\n- Reason: Types and more\n- Alternatives considered:\n  - none\n- Reversible: yes\n',
  );
  expect(text['sessions/session-001.md']).toContain('- Context usage: 62%\n');
});

it('H12 the export is a gzipped tar file, the same bytes for the same initiative', async () => {
  const archive = await planningArchive(view);
  expect(await planningArchive(view)).toEqual(archive);
  const entries = await unpackTar(new Uint8Array(gunzipSync(archive)));
  const unpacked = entries.map(({ header, data }) => ({
    path: header.name.replace('.planning/', ''),
    text: new TextDecoder().decode(data),
  }));
  expect(unpacked).toEqual(planningFiles(view));
});
