/**
 * The outcome of `work`, with a timeout. gRPC's own deadline is not enough: it is not checked between two attempts.
 * @throws {Error} after `ms`
 */
export async function withinMs<T>(ms: number, work: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
  // A later rejection must not be unhandled.
  work.catch(() => {});
  return Promise.race([work, promise]).finally(() => clearTimeout(timer));
}
