// What a query of Prometheus asks for.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parser } from '@prometheus-io/lezer-promql';
import { parse } from 'yaml';

const ROOT = path.join(import.meta.dirname, '..', '..');

export interface Query {
  text: string;
  metrics: string[];
  /** Labels that are matched or grouped by, but for those that Prometheus itself adds. */
  labels: string[];
}

/** An alert of deploy/prometheus-rules.yml. */
export interface Alert {
  alert: string;
  expr: string;
}

export async function alerts(): Promise<Alert[]> {
  const text = await readFile(path.join(ROOT, 'deploy', 'prometheus-rules.yml'), 'utf8');
  return (parse(text) as { groups: { rules: Alert[] }[] }).groups.flatMap(({ rules }) => rules);
}

/** `instance` is Prometheus' own; `le` is that of every histogram. */
const ALWAYS = new Set(['instance', 'le']);

/** @throws {Error} where the query is none */
export function queryOf(text: string): Query {
  const [metrics, labels] = [new Set<string>(), new Set<string>()];
  parser.parse(text).iterate({
    enter({ name, type, from, to }) {
      const word = text.slice(from, to);
      if (type.isError) throw new Error(`no query: ${text}, at ${text.slice(from)}`);
      if (name === 'Identifier') metrics.add(word);
      if (name === 'LabelName' && !ALWAYS.has(word)) labels.add(word);
    },
  });
  return { text, metrics: [...metrics], labels: [...labels] };
}
