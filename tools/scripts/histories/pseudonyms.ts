// Replaces names in histories and removes what replaying does not need. One instance per recording, so that equal names
// get equal pseudonyms.
import type { History, HistoryEvent } from '../../../worker/replay/history.ts';
import { mapPayloads, readable } from '../../../worker/replay/payloads.ts';

/** Our own ids; ids of clients are recognized by their field. */
const OUR_ID = /\b([a-z]{3,4})_[0-9a-f]{12}[0-9A-Za-z]{14}\b/g;

/** Fields that contain a name from outside, and its kind. */
const NAMES: Readonly<Record<string, string>> = {
  user_id: 'user',
  PerdureUser: 'user',
  project_id: 'project',
  locked_project_id: 'project',
  PerdureProject: 'project',
  message_id: 'message',
  from_message_id: 'message',
  from_start_message_id: 'message',
  dropped: 'message',
  command_id: 'command',
};

/** `<command>:<id>`, with the run of a message or the digest of the arguments, and with what the server appends. */
const UPDATE_IDS = new Set(['updateId', 'inboundUpdateId', 'protocolInstanceId', 'acceptedRequestMessageId']);

/** Events with the summary of a session. */
const STARTS = new Set([
  'EVENT_TYPE_WORKFLOW_EXECUTION_STARTED',
  'EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED',
]);

/** Free text of users and operators. */
const FREE_TEXT = new Set(['reason', 'details_text']);

/** Fields that replaying does not need, or that identify a machine. */
const LEFT_OUT = new Set([
  'identity',
  'taskId',
  'version',
  'workerVersion',
  'meteringMetadata',
  'historySizeBytes',
  'requestId',
  'stackTrace',
  'memo',
  'header',
]);

export class Pseudonyms {
  private readonly given = new Map<string, string>();
  private readonly counts = new Map<string, number>();

  /**
   * A copy of a history without names.
   * @throws if a name is left in an unknown place
   */
  history(history: History): History {
    const events = history.events.map((event) => this.event(event));
    const text = readable(events);
    for (const [name, pseudonym] of this.given) {
      // Short names may be parts of other words.
      if (name.length > 4 && name !== pseudonym && text.includes(name)) {
        throw new Error(
          `the history would still name the ${pseudonym.replace(/[-_].*/, '')} that becomes ${pseudonym}`,
        );
      }
    }
    return { events };
  }

  private event(event: HistoryEvent): HistoryEvent {
    const { userMetadata, ...rest } = event;
    const changed = this.inEvent('', rest) as HistoryEvent;
    if (userMetadata === undefined) return changed;
    return { ...changed, userMetadata: mapPayloads(userMetadata, (summary) => this.summary(event, String(summary))) };
  }

  /** A session's summary is `<agent> · <user>`; summaries of activities contain no user. */
  private summary(event: HistoryEvent, summary: string): string {
    const at = summary.indexOf(' · ');
    if (!STARTS.has(event.eventType) || at < 0) return this.ids(summary);
    return `${summary.slice(0, at)} · ${this.name('user', summary.slice(at + 3))}`;
  }

  private inEvent(key: string, value: unknown): unknown {
    if (Array.isArray(value)) return value.map((item) => this.inEvent(key, item));
    if (typeof value === 'string') return UPDATE_IDS.has(key) ? this.updateId(value) : this.content(key, value);
    if (typeof value !== 'object' || value === null) return value;
    if ('metadata' in value && 'data' in value) return mapPayloads(value, (content) => this.content(key, content));
    return Object.fromEntries(
      Object.entries(value)
        .filter(([name]) => !LEFT_OUT.has(name))
        .map(([name, item]) => [name, this.inEvent(name, item)]),
    );
  }

  /** The value of a payload, or one of its fields. */
  private content(key: string, value: unknown): unknown {
    if (Array.isArray(value)) return value.map((item) => this.content(key, item));
    if (typeof value === 'string') {
      if (FREE_TEXT.has(key)) return 'free text';
      const kind = NAMES[key];
      return kind === undefined ? this.ids(value) : this.name(kind, value);
    }
    if (typeof value !== 'object' || value === null) return value;
    // In payloads, `message` is an id; elsewhere it is the text of a failure.
    const kindOf = (name: string) => (name === 'message' ? 'message_id' : name);
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, this.content(kindOf(name), item)]));
  }

  private updateId(id: string): string {
    const match = /^([A-Za-z]+):(.*?)(?::([\w-]{43}))?((?::\d+)?(?:\/request)?)$/.exec(id);
    if (match === null || match[1] === 'sweep') return this.ids(id);
    const [, command = '', name = '', digest, rest = ''] = match;
    const of = digest === undefined ? '' : `:${this.name('digest', digest)}`;
    return `${command}:${this.name(command === 'submit' ? 'message' : 'command', name)}${of}${rest}`;
  }

  private name(kind: string, original: string): string {
    OUR_ID.lastIndex = 0;
    if (OUR_ID.test(original)) return this.ids(original);
    return this.pseudonym(original, kind, (n) => `${kind}-${n}`);
  }

  private ids(text: string): string {
    return text.replace(OUR_ID, (id, prefix: string) =>
      this.pseudonym(id, prefix, (n) => `${prefix}_${n.toString(16).padStart(12, '0')}${'0'.repeat(14)}`),
    );
  }

  private pseudonym(original: string, kind: string, make: (n: number) => string): string {
    const known = this.given.get(original);
    if (known !== undefined) return known;
    const count = (this.counts.get(kind) ?? 0) + 1;
    this.counts.set(kind, count);
    const made = make(count);
    this.given.set(original, made);
    return made;
  }
}
