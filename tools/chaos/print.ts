import type { Report } from './campaign.ts';

const SHOWN = 25;
const LONGEST = 600;

/** A report for people. */
export function printed(report: Report): string {
  const faults = Object.entries(report.faults).toSorted(([a], [b]) => a.localeCompare(b));
  const violations = report.violations
    .slice(0, SHOWN)
    .map(({ promise, where, what }) => `  ✗ ${promise}\n    ${where}\n    ${what.slice(0, LONGEST)}`);
  const more = report.violations.length - SHOWN;
  const { seed, seconds, sessions, turns, modelCalls, readings, broken } = report;
  return [
    `seed ${seed}${broken ? `, broken on purpose: ${broken}` : ''}: ${seconds} s, ${sessions} sessions, ${turns} turns, ${modelCalls} model calls, ${readings} readings`,
    `${report.injected.length} faults injected, and what the model did wrong:`,
    ...faults.map(([kind, count]) => `  ${String(count).padStart(5)} ${kind}`),
    'changes of conversations, and turns by model:',
    ...Object.entries({ ...report.changes, ...report.models }).map(
      ([kind, count]) => `  ${String(count).padStart(5)} ${kind}`,
    ),
    'promises checked:',
    ...Object.entries(report.checked).map(([promise, count]) => `  ${String(count).padStart(5)} ${promise}`),
    `${report.violations.length} violations`,
    ...violations,
    ...(more > 0 ? [`  and ${more} more, in the report`] : []),
  ].join('\n');
}
