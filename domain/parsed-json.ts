/** The value of some JSON; undefined if it is none. */
export function parsedJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}
