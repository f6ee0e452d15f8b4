/** The value below which a share of the samples lies (nearest rank). */
export function percentile(samples: readonly number[], share: number): number {
  if (samples.length === 0) return Number.NaN;
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))]!;
}

export function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}

export function mean(samples: readonly number[]): number {
  return samples.reduce((sum, each) => sum + each, 0) / samples.length;
}

/** p50, p95 and p99 as text, in milliseconds. */
export function spread(samples: readonly number[]): string {
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => percentile(samples, share).toFixed(1));
  return `p50 ${p50} · p95 ${p95} · p99 ${p99} (n ${samples.length})`;
}
