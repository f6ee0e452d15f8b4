import { setTimeout as delay } from 'node:timers/promises';
import { AwsClient } from 'aws4fetch';
import pTimeout from 'p-timeout';

/** A bucket of an S3-compatible store. */
export interface S3Options {
  /** Of the bucket, with any prefix of the objects' names: `https://s3.eu-central-1.amazonaws.com/bucket/attachments`. */
  url: string;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
}

/** For the headers of a response, and for each piece of its body. */
const WAIT_MS = 20_000;
const ATTEMPTS = 3;
const RETRY_MS = 200;

/** The objects of attachments in a bucket. A request that fails temporarily is repeated, because all of them are idempotent. */
export class S3Bucket {
  private readonly client: AwsClient;
  private readonly url: string;
  private readonly waitMs: number;

  /** @param waitMs how long the store may send nothing: a body may take longer, however slow its reader is */
  constructor({ url, region, accessKeyId, secretAccessKey }: S3Options, waitMs = WAIT_MS) {
    this.client = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3', retries: 0 });
    this.waitMs = waitMs;
    this.url = url.replace(/\/+$/, '');
  }

  async put(name: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    // The store requires the length, and the signature a digest.
    const body = Buffer.concat(await Array.fromAsync(bytes));
    await this.send('PUT', name, { body, headers: { 'content-type': 'application/octet-stream' } });
  }

  async *get(name: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const response = await this.send('GET', name, signal && { signal });
    const reader = response.body?.getReader();
    if (reader === undefined) return;
    try {
      for (;;) {
        const { done, value } = await this.inTime(reader.read());
        if (done) return;
        yield value;
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  /** Does nothing for an object that does not exist. */
  async remove(name: string): Promise<void> {
    await this.send('DELETE', name).catch((error: unknown) => {
      if (!(error instanceof S3Error && error.status === 404)) throw error;
    });
  }

  private async send(method: string, name: string, init: RequestInit = {}, attempt = 1): Promise<Response> {
    const timeout = new AbortController();
    const signal = init.signal ? AbortSignal.any([init.signal, timeout.signal]) : timeout.signal;
    try {
      const sent = this.client.fetch(`${this.url}/${name}`, { ...init, method, signal });
      const response = await this.inTime(sent, (error) => timeout.abort(error));
      if (response.ok) return response;
      await response.body?.cancel();
      throw new S3Error(`the store of attachments answered ${method} with status ${response.status}`, response.status);
    } catch (error) {
      const isFinal = error instanceof S3Error && error.status < 500;
      if (isFinal || attempt === ATTEMPTS || signal.aborted) throw error;
      await delay(RETRY_MS * attempt);
      return this.send(method, name, init, attempt + 1);
    }
  }

  /** What the store sends next. Throws if it sends nothing for too long. */
  private inTime<T>(next: Promise<T>, abort: (error: Error) => void = () => {}): Promise<T> {
    const fallback = () => {
      const error = new Error(`the store of attachments sent nothing for ${this.waitMs} ms`);
      abort(error);
      throw error;
    };
    return pTimeout(next, { milliseconds: this.waitMs, fallback });
  }
}

class S3Error extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.name = 'S3Error';
    this.status = status;
  }
}
