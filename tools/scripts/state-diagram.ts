// Generates the diagram and table in docs/state-machine.md from domain/phases.ts, between the markers.
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { PHASE_EVENTS, PHASES, phaseDiagram, TRANSITIONS } from '../../domain/phases.ts';

export const STATE_MACHINE_DOC = path.resolve(import.meta.dirname, '../../docs/state-machine.md');

const BEGIN = '<!-- begin: written by tools/scripts/state-diagram.ts -->';
const END = '<!-- end: written by tools/scripts/state-diagram.ts -->';

/** A row per phase, a column per event; padded like the formatter does. */
function phaseTable(): string {
  const head = ['phase', ...PHASE_EVENTS.map((event) => `\`${event}\``)];
  const body = PHASES.map((phase) =>
    [phase as string].concat(PHASE_EVENTS.map((event) => TRANSITIONS[phase][event] ?? '–')),
  );
  const widths = head.map((_, column) => Math.max(...[head, ...body].map((cells) => cells[column]?.length ?? 0)));
  const rule = widths.map((width) => '-'.repeat(width));
  const line = (cells: string[]) => `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  return [head, rule, ...body].map(line).join('\n');
}

/** The document with new contents between its markers. */
export function withStateMachine(document: string): string {
  const [begin, end] = [document.indexOf(BEGIN), document.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`${STATE_MACHINE_DOC} has lost its markers ${BEGIN} and ${END}`);
  const generated = ['', '', '```mermaid', phaseDiagram(), '```', '', phaseTable(), '', ''].join('\n');
  return document.slice(0, begin + BEGIN.length) + generated + document.slice(end);
}

if (import.meta.main) {
  await writeFile(STATE_MACHINE_DOC, withStateMachine(await readFile(STATE_MACHINE_DOC, 'utf8')));
  console.log(`wrote ${path.relative(process.cwd(), STATE_MACHINE_DOC)}`);
}
