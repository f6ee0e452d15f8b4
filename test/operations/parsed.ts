// Parses a scrape like Prometheus.
import parse from 'parse-prometheus-text-format';

export interface Scrape {
  names: string[];
  /** Declared metrics, with the names of their samples' labels. */
  families: Map<string, Set<string>>;
  /** Every value of every label of every metric. */
  labelValues: string[];
  /** The sum of the samples with these labels; undefined: there are none. For a histogram use its `_count`. */
  value(name: string, labels?: Record<string, string>): number | undefined;
}

/** @throws for text that is not in Prometheus' format, or a metric that is declared twice */
export function parsed(text: string): Scrape {
  // The parser merges histograms of different labels; as samples without a type they stay separate.
  const families = parse(text.replaceAll(/^# TYPE \S+ histogram$/gm, ''));
  const typed = Array.from(text.matchAll(/^# TYPE (\S+)/gm), ([, name]) => name);
  const twice = typed.filter((name, index) => typed.indexOf(name) !== index);
  if (twice.length > 0) throw new Error(`twice: ${twice.join(', ')}`);
  return {
    names: families.map((family) => family.name),
    families: new Map(typed.map((name = '') => [name, labelsOf(text, name)])),
    labelValues: families.flatMap(({ metrics }) => metrics.flatMap(({ labels }) => Object.values(labels ?? {}))),
    value(name, labels = {}) {
      const family = families.find((each) => each.name === name);
      const samples = (family?.metrics ?? []).filter((sample) =>
        Object.entries(labels).every(([label, value]) => sample.labels?.[label] === value),
      );
      if (samples.length === 0) return undefined;
      return samples.reduce((sum, sample) => sum + Number(sample.value), 0);
    },
  };
}

function labelsOf(text: string, family: string): Set<string> {
  const samples = text.matchAll(new RegExp(`^${family}(?:_bucket|_sum|_count)?\\{(.*)\\} `, 'gm'));
  const names = Array.from(samples).flatMap(([, labels = '']) =>
    Array.from(labels.matchAll(/(\w+)="/g), ([, name = '']) => name),
  );
  return new Set(names.filter((name) => name !== 'le'));
}
