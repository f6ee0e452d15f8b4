import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { AwsClient, AwsV4Signer } from 'aws4fetch';
import pTimeout from 'p-timeout';
import { ContentUnavailableError } from '../domain/content-unavailable-error.ts';

/** A bucket of an S3-compatible store. */
export interface S3Options {
  /** Of the bucket, with any prefix of the objects' names: `https://s3.eu-central-1.amazonaws.com/bucket/attachments`. */
  url: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
}

/** A content that is known as a whole. */
export interface WholeContent {
  /** SHA-256 of the bytes, in hex. */
  digest: string;
  /** In bytes. */
  size: number;
  /** May be read several times. A piece is valid until the next one is asked for. */
  bytes: () => AsyncIterable<Uint8Array>;
}

interface Patience {
  /** How long the store may neither take nor send anything. */
  waitMs: number;
  /** What it has to take, in bytes a second: files of others wait meanwhile. */
  leastRate: number;
}

const PATIENCE: Patience = { waitMs: 20_000, leastRate: 64 * 1024 };
const ATTEMPTS = 3;
const RETRY_MS = 200;
/** Statuses below 500 that another attempt may not get. */
const TEMPORARY: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * The objects of attachments in a bucket. A request that fails temporarily is repeated, because all of them are idempotent, but not one
 * of a store that does nothing: whoever waits for it has waited long enough.
 */
export class S3Bucket {
  private readonly signing: Omit<S3Options, 'url'> & { service: string };
  private readonly client: AwsClient;
  private readonly url: string;
  private readonly patience: Patience;

  constructor({ url, ...keys }: S3Options, patience: Partial<Patience> = {}) {
    this.signing = { ...keys, service: 's3' };
    this.client = new AwsClient({ ...this.signing, retries: 0 });
    this.patience = { ...PATIENCE, ...patience };
    this.url = url.replace(/\/+$/, '');
  }

  /** Sends the bytes as they are read. @throws {ContentUnavailableError} */
  put(name: string, content: WholeContent): Promise<void> {
    return this.repeated(() => this.putOnce(name, content));
  }

  /**
   * The bytes of an object, once the store has begun to send them; undefined: there is none. They must be read, or returned.
   * @throws {ContentUnavailableError} so does reading them
   */
  async open(name: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined> {
    const response = await this.repeated(() => this.fetch('GET', name, signal), signal);
    return response && this.piecesOf(response, signal);
  }

  /** Does nothing for an object that does not exist. @throws {ContentUnavailableError} */
  async remove(name: string): Promise<void> {
    const response = await this.repeated(() => this.fetch('DELETE', name));
    await response?.body?.cancel();
  }

  private async repeated<T>(attempt: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let n = 1; ; n += 1) {
      try {
        return await attempt();
      } catch (error) {
        signal?.throwIfAborted();
        const known = error instanceof ContentUnavailableError ? error : unreachable(error);
        if (known.isRefused || known instanceof SlowStoreError || n === ATTEMPTS) throw known;
        await delay(RETRY_MS * n, undefined, { signal }).catch(() => signal?.throwIfAborted());
      }
    }
  }

  /** The successful answer; undefined: there is no such object. */
  private async fetch(method: string, name: string, signal?: AbortSignal): Promise<Response | undefined> {
    const silence = new AbortController();
    const either = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal;
    const answered = this.client.fetch(`${this.url}/${name}`, { method, signal: either });
    const response = await this.inTime(answered).catch((error: unknown) => {
      silence.abort(error);
      throw error;
    });
    if (response.ok) return response;
    await response.body?.cancel();
    if (response.status === 404) return undefined;
    throw refusal(method, response.status);
  }

  /** Not with `fetch`, which does not tell when a piece was sent. */
  private async putOnce(name: string, { digest, size, bytes }: WholeContent): Promise<void> {
    const { waitMs, leastRate } = this.patience;
    const from = performance.now();
    const length = { 'content-type': 'application/octet-stream', 'content-length': String(size) };
    const signer = new AwsV4Signer({
      ...this.signing,
      method: 'PUT',
      url: `${this.url}/${name}`,
      headers: { ...length, 'x-amz-content-sha256': digest },
    });
    const { url, headers } = await signer.sign();
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const sent = send(url, { method: 'PUT', headers: Object.fromEntries(headers), timeout: waitMs });
    sent.on('timeout', () => sent.destroy(silent(waitMs)));
    sent.on('error', () => {});
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
    answered.catch(() => {});
    const tooSlow = () => sent.destroy(new SlowStoreError(`took less than ${leastRate} bytes a second`));
    const timer = setTimeout(tooSlow, 2 * waitMs + (size / leastRate) * 1_000);
    try {
      for await (const piece of bytes()) {
        const early = await Promise.race([answered, written(sent, piece)]);
        if (early) throw refusal('PUT', early[0].statusCode);
      }
      // What the system has taken, but not sent, takes no longer than all before it.
      sent.setTimeout(Math.max(waitMs, performance.now() - from));
      sent.end();
      const [response] = await answered;
      const { statusCode = 0 } = response;
      if (statusCode < 200 || statusCode > 299) throw refusal('PUT', statusCode);
      response.resume();
    } catch (error) {
      sent.destroy();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Not a generator: of one that was not begun, `return` does nothing. */
  private piecesOf({ body }: Response, signal: AbortSignal | undefined): AsyncIterableIterator<Uint8Array, undefined> {
    const reader = body?.getReader();
    const end = () => {
      reader?.cancel().catch(() => {});
      return Promise.resolve({ done: true as const, value: undefined });
    };
    const next = async () => {
      try {
        const read = await (reader && this.inTime(reader.read()));
        return read === undefined || read.done ? await end() : read;
      } catch (error) {
        await end();
        signal?.throwIfAborted();
        if (error instanceof ContentUnavailableError) throw error;
        throw new ContentUnavailableError('the store of attachments broke off', { cause: error });
      }
    };
    const pieces = { next, return: end, [Symbol.asyncIterator]: () => pieces };
    return pieces;
  }

  /** What the store sends next. @throws {SlowStoreError} */
  private inTime<T>(next: Promise<T>): Promise<T> {
    const { waitMs } = this.patience;
    return pTimeout(next, { milliseconds: waitMs, fallback: () => Promise.reject(silent(waitMs)) });
  }
}

/** Resolves when a piece of a body has left this process. */
function written(sent: ClientRequest, piece: Uint8Array): Promise<undefined> {
  return new Promise((resolve, reject) => {
    sent.write(piece, (error) => (error ? reject(error) : resolve(undefined)));
  });
}

/** Another attempt would take as long. */
class SlowStoreError extends ContentUnavailableError {
  constructor(what: string) {
    super(`the store of attachments ${what}`);
  }
}

function silent(ms: number): SlowStoreError {
  return new SlowStoreError(`did nothing for ${ms} ms`);
}

function unreachable(cause: unknown): ContentUnavailableError {
  return new ContentUnavailableError('the store of attachments cannot be reached', { cause });
}

function refusal(method: string, status = 0): ContentUnavailableError {
  const isRefused = status < 500 && !TEMPORARY.has(status);
  return new ContentUnavailableError(`the store of attachments answered ${method} with status ${status}`, {
    isRefused,
  });
}
