/**
 * The ids of tool calls as a chat completions server sent them. If it sends an id again, the SDK replaces the second one by a
 * generated id, as it does for a missing one.
 */
export class WireIds {
  private readonly used = new Set<string>();
  private sent: WireCall[] = [];
  /** Where in `sent` the next call that starts is looked for: they start in the server's order. */
  private next = 0;

  /** A chunk as the server sent it: the parts that the SDK makes of it follow. */
  read(chunk: unknown): void {
    this.sent = callsIn(chunk);
    this.next = 0;
  }

  /** The server's id of a call that starts; that of the SDK's part if the server sent none, or is not known to have sent one. */
  of(partId: string, toolName: string): string {
    const id = this.sentFor(partId, toolName)?.id ?? partId;
    this.used.add(id);
    return id;
  }

  private sentFor(partId: string, toolName: string): WireCall | undefined {
    for (let at = this.next; at < this.sent.length; at += 1) {
      const { id, name } = this.sent[at] as WireCall;
      if (name !== toolName || (id !== undefined && id !== partId && !this.used.has(id))) continue;
      this.next = at + 1;
      return this.sent[at];
    }
    return undefined;
  }
}

interface WireCall {
  id: string | undefined;
  name: string | undefined;
}

const NONE: WireCall[] = [];

function callsIn(chunk: unknown): WireCall[] {
  const choices = memberOf(chunk, 'choices');
  const calls = memberOf(memberOf(Array.isArray(choices) ? choices[0] : undefined, 'delta'), 'tool_calls');
  if (!Array.isArray(calls)) return NONE;
  return calls.map((call) => ({
    id: textOf(memberOf(call, 'id')),
    name: textOf(memberOf(memberOf(call, 'function'), 'name')),
  }));
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value : undefined;
}
