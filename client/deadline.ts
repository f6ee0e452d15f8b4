/**
 * The outcome of `work`, if it comes in time. A deadline of gRPC alone is not enough: between two tries nobody looks at it.
 * @throws {Error} when `ms` are over
 */
export async function withinMs<T>(ms: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
  // What comes of it later is nobody's any more.
  work.catch(() => {});
  return Promise.race([work, promise]).finally(() => clearTimeout(timer));
}
