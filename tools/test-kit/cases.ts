/** How many cases a property test tries: `usual`, or PERDURE_TEST_CASES if set, for one long run of every property. */
export function cases(usual = 100): { numRuns: number } {
  return { numRuns: Number(process.env['PERDURE_TEST_CASES'] ?? usual) };
}
