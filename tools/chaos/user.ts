// What a user of a session knows and does, for all that it does.
import type { Random } from '../test-kit/random.ts';
import type { Answered, Api } from './api.ts';

/** A message, as the user knows it. */
export interface Sent {
  /** It is in the text, too. The server gives a message that replaces another one an id of its own. */
  id: string;
  /** Session id or alias. */
  session: string;
  text: string;
  /** The stored message that it replaces. */
  replaces?: string;
  /** URL and SHA-256 of a file that goes with it. */
  file?: { url: string; digest: string; mediaType: string };
  /** `provider/model`, if it names one. */
  model?: string;
  /** 200 or 202: accepted. Undefined: no definite response yet. */
  status: number | undefined;
  /** The user reads its answer to the end. */
  awaited: boolean;
  /** The answer was read to its end. */
  read: boolean;
}

/** A command, as the user knows it. */
export interface Commanded {
  session: string;
  name: string;
  key: string;
  target: string | undefined;
  answers: Answered[];
}

/** A request to answer a message again, as the user knows it. */
export interface Regenerated {
  /** The id of the message. */
  message: string;
  /** What it names as replaced: an answer, the message itself, or nothing. */
  replaced: string | undefined;
  /** How often it was sent. */
  tries: number;
  /** Undefined: no definite response yet. */
  status: number | undefined;
}

/** One user of one session. */
export interface User {
  readonly api: Api;
  readonly random: Random;
  readonly sent: readonly Sent[];
  /** Id or alias of its session. */
  readonly session: string;
  /** Fires when nothing is waited for any more. */
  readonly late: AbortSignal;
  /** A name that no other user gives. */
  newName(letter: string): string;
  /** Waits until no request is open; false: it takes too long. */
  isQuiet(): Promise<boolean>;
  /** Sends a command; half of them a second time, later. Returns the first response. */
  command(name: string, body: object): Promise<Answered>;
  /**
   * As useChat does: sends a request until the response is definite, which it notes in `asked`, and reads its stream in the
   * background.
   */
  ask(body: object, asked: Pick<Regenerated, 'tries' | 'status'>): Promise<void>;
}
