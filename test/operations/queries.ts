// The metrics and labels that a Prometheus query uses.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parser } from '@prometheus-io/lezer-promql';
import { parse } from 'yaml';

const ROOT = path.join(import.meta.dirname, '..', '..');

export interface Query {
  text: string;
  metrics: string[];
  /** Labels in matchers and groupings, without those that Prometheus adds. */
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

/** Prometheus adds `instance`; every histogram has `le`. */
const ALWAYS = new Set(['instance', 'le']);

/** @throws {Error} if the query is invalid */
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
