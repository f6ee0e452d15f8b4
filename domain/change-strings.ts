/**
 * Applies `change` to each string of a JSON text, including keys, and to nothing else: the result is valid JSON whatever
 * `change` returns. If two keys of an object become equal, the last one counts.
 */
export function changeStrings(json: string, change: (text: string) => string): string {
  // Most texts do not change. `change` must find in the JSON form whatever it would find in the string.
  if (change(json) === json) return json;
  let changed = '';
  let copied = 0;
  for (let start = json.indexOf('"'); start >= 0; start = json.indexOf('"', copied)) {
    const end = endOfString(json, start);
    changed += json.slice(copied, start) + changeString(json.slice(start, end), change);
    copied = end;
  }
  return changed + json.slice(copied);
}

/** The index after the closing quote of the string that starts at `start`. */
function endOfString(json: string, start: number): number {
  for (let at = start + 1; at < json.length; at += 1) {
    if (json[at] === '"') return at + 1;
    if (json[at] === '\\') at += 1;
  }
  return json.length;
}

function changeString(literal: string, change: (text: string) => string): string {
  return change(literal) === literal ? literal : JSON.stringify(change(JSON.parse(literal) as string));
}
