/**
 * A JSON text with a change made to each of its strings, keys included, and to nothing else: numbers and structure stay,
 * and the result is valid JSON whatever `change` answers. Of two keys of an object that become the same the last counts.
 */
export function changeStrings(json: string, change: (text: string) => string): string {
  // Most texts stay as they are. Whatever `change` would find in a string it has to find in its JSON form as well.
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

/** The index behind the closing quote of the string that opens at `start`. */
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
