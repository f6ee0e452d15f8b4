// Buckets for tests: a real S3-compatible server, and one that fails as a test says.
import { once } from 'node:events';
import { mkdir, readdir } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import S3rver from 's3rver';
import type { S3Options } from '../../store/s3.ts';

interface Bucket {
  s3: S3Options;
  close(): Promise<void>;
}

/** Starts an S3-compatible server that checks signatures, with an empty bucket below `directory`. */
export async function startBucket(directory: string): Promise<Bucket & { objects(): Promise<string[]> }> {
  await mkdir(directory, { recursive: true });
  const configureBuckets = [{ name: 'files', configs: [] }];
  const server = new S3rver({ address: '127.0.0.1', port: 0, silent: true, directory, configureBuckets });
  const { port } = await server.run();
  const keys = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' };
  const objects = async () => {
    const names = await readdir(path.join(directory, 'files'), { recursive: true });
    return names.filter((name) => name.endsWith('_object'));
  };
  return {
    s3: { url: `http://127.0.0.1:${port}/files/attachments`, region: 'us-east-1', ...keys },
    objects,
    close: () => server.close(),
  };
}

/** Answers a request; false: the server does it. */
type Behavior = (request: IncomingMessage, response: ServerResponse) => boolean;

/** A bucket in memory, and how it behaves. */
export interface TestStore extends Bucket {
  objects: Map<string, Buffer>;
  /** Method and path of each request. */
  requests: string[];
  /** From now on; undefined: as a bucket does. */
  behave(behavior?: Behavior): void;
}

/** Refuses with this status. */
export const refusing =
  (status: number): Behavior =>
  (request, response) => {
    request.resume();
    response.writeHead(status).end();
    return true;
  };

/** Takes nothing and answers nothing. */
export const stalled: Behavior = (request) => {
  request.pause();
  return true;
};

/** Closes every connection. */
export const away: Behavior = (request) => {
  request.destroy();
  return true;
};

export async function startStore(): Promise<TestStore> {
  const objects = new Map<string, Buffer>();
  const requests: string[] = [];
  let behavior: Behavior = () => false;
  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const { method = '', url = '' } = request;
    requests.push(`${method} ${url}`);
    if (behavior(request, response)) return;
    const found = objects.get(url);
    if (method === 'PUT') objects.set(url, Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>)));
    if (method === 'DELETE') objects.delete(url);
    if (method === 'GET' && found === undefined) response.statusCode = 404;
    response.end(method === 'GET' ? found : undefined);
  };
  const server = createServer((request, response) => void serve(request, response).catch(() => {}));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    s3: {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/files`,
      region: 'us-east-1',
      accessKeyId: 'a',
      secretAccessKey: 'b',
    },
    objects,
    requests,
    behave: (next = () => false) => (behavior = next),
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
