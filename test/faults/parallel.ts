/** Calls `each` for 0, 1, … count - 1, started in this order, at most `atOnce` at a time. */
export async function inParallel(count: number, atOnce: number, each: (n: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) await each(next++);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, lane));
}
