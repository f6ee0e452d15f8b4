import { createParser, type EventSourceMessage, type EventSourceParser } from 'eventsource-parser';
import pTimeout from 'p-timeout';
import { MAX_ANSWER } from '../../domain/max-answer.ts';
import { parsedJson } from '../../domain/parsed-json.ts';
import { AnswerTooLongError } from './answer-size.ts';
import type { Silence } from './idle-limit.ts';
import { type ProviderAnswerReader, objectOf } from './provider-answer-reader.ts';
import { errorEvent, errorOfBody, UnreadableAnswerError } from './unreadable-answer.ts';

/** Longest event of a provider's stream, in bytes. JSON in JSON takes twice its length. */
const MAX_EVENT = 2 * MAX_ANSWER;
/** Of an answer that is no stream, in characters. */
const MAX_BODY = 64 * 1024;
/** How long the rest of an answer that is whole may take, such as its usage, in milliseconds. */
const GRACE_MS = 3_000;
/** How long the end of a connection is awaited, so that it can be used again, in milliseconds, and how many pieces are read. */
const DRAIN_MS = 1_000;
const DRAIN_PIECES = 100;

/** The begin of a stream of events, and of what may become one. */
const FIELD = /^(?:data|event|id|retry)?:/;
const PART_OF_FIELD = /^(?:d|da|dat|data|e|ev|eve|even|event|i|id|r|re|ret|retr|retry)?$/;

/** Fields by which the content of another protocol is known from signs of life. */
const CONTENT = new Set([
  'choices',
  'candidates',
  'content',
  'content_block',
  'delta',
  'message',
  'output',
  'response',
  'text',
]);

type Bytes = Uint8Array<ArrayBuffer>;
type Body = ReadableStreamDefaultReader<Uint8Array>;

/**
 * A provider's stream of server-sent events as its protocol has it. It ends with the protocol's last event, although the
 * connection stays open. It fails if the answer is no such stream, if an event is longer than `MAX_EVENT`, and with an error
 * that its first event tells of.
 *
 * @param reader reads the answer in the provider's protocol
 * @param silence of the call, which all bytes end
 */
export function mendedStream(
  body: ReadableStream<Uint8Array>,
  reader: ProviderAnswerReader,
  silence: Silence,
): ReadableStream<Bytes> {
  const events = new Events(reader);
  const source = body.getReader();
  const rest = new Rest();
  return new ReadableStream<Bytes>(
    {
      async pull(controller) {
        for (let text = ''; text === '' && !events.isOver;) {
          // The rest has a limit of its own.
          if (reader.isWhole) silence.ignore();
          const piece = await (reader.isWhole ? rest.next(source) : next(source));
          if (piece) silence.end();
          text = textOf(events, piece, source);
          if (text !== '') controller.enqueue(Buffer.from(text));
        }
        if (events.isOver) close(controller, source);
      },
      cancel: (reason) => source.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** The next bytes; undefined at the end of the connection. */
async function next(source: Body): Promise<Uint8Array | undefined> {
  return (await source.read()).value;
}

/** What follows an answer that is whole: all of it in a short time, and its end does not matter. */
class Rest {
  private deadline: number | undefined;

  async next(source: Body): Promise<Uint8Array | undefined> {
    this.deadline ??= performance.now() + GRACE_MS;
    const milliseconds = Math.max(1, this.deadline - performance.now());
    return pTimeout(
      next(source).catch(() => undefined),
      { milliseconds, message: false },
    );
  }
}

/** The text that is to be read after a piece, or after the last one. @throws what is wrong with it; the connection is closed */
function textOf(events: Events, piece: Uint8Array | undefined, source: Body): string {
  try {
    return piece ? events.of(piece) : events.end();
  } catch (error) {
    source.cancel(error).catch(() => {});
    throw error;
  }
}

function close(controller: ReadableStreamDefaultController<Bytes>, source: Body): void {
  controller.close();
  void drain(source);
}

/** Reads what is left of a connection, and closes it if that does not end. */
async function drain(source: Body): Promise<void> {
  const late = setTimeout(() => void source.cancel().catch(() => {}), DRAIN_MS);
  try {
    for (let pieces = 0; pieces < DRAIN_PIECES; pieces += 1) if ((await source.read()).done) return;
    await source.cancel();
  } catch {
    // It is closed.
  } finally {
    clearTimeout(late);
  }
}

/** The text of a stream, event by event. */
class Events {
  isOver = false;
  private readonly reader: ProviderAnswerReader;
  private readonly decoder = new TextDecoder();
  private readonly parser: EventSourceParser;
  /** What has arrived, without the white space before it, until it is known to be a stream of events. */
  private head: string | undefined = '';
  /** What has arrived is known to be no stream of events. */
  private isBody = false;
  private isEnding = false;
  private text = '';
  /** Bytes since the last event. */
  private incomplete = 0;
  private hasEvents = false;
  /** The first event that has content, but not of this protocol. */
  private unknown: string | undefined;

  constructor(reader: ProviderAnswerReader) {
    this.reader = reader;
    this.parser = createParser({ onEvent: (event) => this.event(event) });
  }

  of(piece: Uint8Array): string {
    this.incomplete += piece.length;
    this.feed(this.decoder.decode(piece, { stream: true }));
    if (this.incomplete > MAX_EVENT) throw new AnswerTooLongError();
    return this.taken();
  }

  /** The last events: one without an empty line after it, and those that are missing. */
  end(): string {
    this.isEnding = true;
    this.feed(`${this.decoder.decode()}\n\n`);
    if (this.isBody) throw errorOfBody(this.head ?? '');
    if (!this.isOver) this.finish(false);
    return this.taken();
  }

  private taken(): string {
    const { text } = this;
    this.text = '';
    return text;
  }

  private feed(text: string): void {
    if (this.head === undefined) return this.parser.feed(text);
    this.head = this.isBody ? this.head + text : (this.head + text).replace(/^\uFEFF?\s*/, '');
    if (this.isBody && this.head.length > MAX_BODY) throw errorOfBody(this.head);
    if (this.isBody || PART_OF_FIELD.test(this.head)) return undefined;
    this.isBody = !FIELD.test(this.head);
    if (this.isBody) return undefined;
    const { head } = this;
    this.head = undefined;
    return this.parser.feed(head);
  }

  private event({ data, event: name }: EventSourceMessage): void {
    this.incomplete = 0;
    if (this.isOver || data === '') return;
    if (data.trim() === '[DONE]') return this.finish(true);
    const value = parsedJson(data);
    if (value === undefined && (this.reader.isWhole || this.isEnding)) return;
    if (value === undefined) return this.fail(new UnreadableAnswerError(data), data);
    const given = objectOf(value);
    const typed = given && given['type'] === undefined && name !== undefined ? { ...given, type: name } : given;
    const read = typed && this.reader.read(typed);
    if (read instanceof Error) return this.fail(read, JSON.stringify(errorEvent(read)));
    if (read === undefined) {
      if (given && Object.keys(given).some((field) => CONTENT.has(field))) this.unknown ??= data;
      return undefined;
    }
    this.hasEvents = true;
    this.send(read === given ? data : JSON.stringify(read));
    this.isOver ||= this.reader.isOver;
    return undefined;
  }

  /** What was sent before is still on its way through the SDK, and would be lost with an error of the stream. */
  private fail(error: Error, data: string): void {
    if (!this.hasEvents) throw error;
    this.send(data);
    this.isOver = true;
  }

  private finish(isDone: boolean): void {
    if (!this.hasEvents && this.unknown !== undefined) throw errorOfBody(this.unknown);
    for (const event of this.reader.missing(isDone)) this.send(JSON.stringify(event));
    this.isOver = true;
  }

  private send(data: string): void {
    this.text += `data: ${data.replaceAll('\n', '\ndata: ')}\n\n`;
  }
}
