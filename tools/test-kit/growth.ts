const TRIES = 3;
const FACTOR = 8;

/**
 * How many times more CPU `work` takes for eight times the size: about 8 if it is linear, 64 if it is quadratic. The least of
 * three measurements each, so that a busy machine does not count.
 */
export async function growthOf(work: (size: number) => void | Promise<void>, size: number): Promise<number> {
  const least = await cpuOf(() => work(size));
  return (await cpuOf(() => work(FACTOR * size))) / least;
}

/** More than linear work reaches, less than quadratic work. */
export const MOST_LINEAR = 24;

/** Microseconds of CPU. */
async function cpuOf(work: () => void | Promise<void>): Promise<number> {
  let least = Infinity;
  for (let n = 0; n < TRIES; n += 1) {
    const from = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(from);
    least = Math.min(least, user + system);
  }
  return least;
}
