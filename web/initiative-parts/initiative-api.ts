import type { Initiative, InitiativeView } from '../../wire/initiative-views.ts';
import { answered, askHost, type ListPart } from '../api/api.ts';

/** STATE.md, and the ETag that it came with. */
export interface StateText {
  text: string;
  etag: string;
}

/** A command of an initiative: its route below that of the initiative, and its body. */
export interface InitiativeAction {
  path: string;
  body: Readonly<Record<string, unknown>>;
}

const ROOT = '/api/initiatives';

/** The routes of one initiative. Each throws a Problem, or another error if the server cannot be reached. */
export class InitiativeApi {
  private readonly base: string;

  constructor(id: string) {
    this.base = `${ROOT}/${encodeURIComponent(id)}`;
  }

  get eventsUrl(): string {
    return `${this.base}/events`;
  }

  read(): Promise<InitiativeView> {
    return askHost('GET', this.base);
  }

  /** @param key of the command: a repeat with the same one is not carried out again */
  command({ path, body }: InitiativeAction, key: string): Promise<unknown> {
    return askHost('POST', `${this.base}${path}`, body, key);
  }

  async stateFile(): Promise<StateText> {
    return fileOf(await answered(`${this.base}/STATE.md`, { cache: 'no-store' }));
  }

  /** Sends an edited STATE.md back; `etag` is that of the file that was edited. */
  async putStateFile({ text, etag }: StateText): Promise<StateText> {
    const headers = { 'content-type': 'text/markdown', 'if-match': etag };
    return fileOf(await answered(`${this.base}/STATE.md`, { method: 'PUT', headers, body: text }));
  }
}

async function fileOf(response: Response): Promise<StateText> {
  return { text: await response.text(), etag: response.headers.get('etag') ?? '' };
}

/** A page of the user's initiatives, newest first; `next` is the cursor of older ones. @throws as the routes of one */
export function readInitiatives(after?: string): Promise<ListPart<Initiative>> {
  return askHost('GET', after === undefined ? ROOT : `${ROOT}?after=${encodeURIComponent(after)}`);
}
