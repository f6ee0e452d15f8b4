// A proxy to Postgres that changes those messages of the protocol by which a client can tell a pooler from Postgres. It shares
// no connections: test/campaign/pgbouncer.test.ts does that with a real pooler.
import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer } from 'node:net';
import { afterFile } from './after-file.ts';

const KEY_DATA = 'K'.charCodeAt(0);
const NOTIFICATION = 'A'.charCodeAt(0);
/** Type and length of a message of the server. */
const HEADER_BYTES = 5;

interface PoolerProxyOptions {
  /** Whether connections get the notifications for which they listen, as in session mode. */
  notifies?: boolean;
  /** A start-up parameter that is refused. */
  refuses?: string;
}

/** Starts the proxy and stops it after the file. Returns the URL of the same database through it. */
export async function startPoolerProxy(databaseUrl: string, options: PoolerProxyOptions = {}): Promise<string> {
  const target = new URL(databaseUrl);
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = createConnection({ host: target.hostname, port: Number(target.port), noDelay: true });
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on('error', () => {});
      one.once('close', () => other.destroy());
    }
    client.once('data', (startup) => {
      const { refuses } = options;
      if (refuses !== undefined && startup.includes(`\0${refuses}\0`)) return void client.end(refusal(refuses));
      upstream.write(startup);
      client.pipe(upstream);
    });
    let rest = Buffer.alloc(0);
    upstream.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= HEADER_BYTES && rest.length > rest.readUInt32BE(1)) {
        const message = rest.subarray(0, 1 + rest.readUInt32BE(1));
        rest = rest.subarray(message.length);
        // The process id of a client of a pooler is none of a process of Postgres.
        if (message[0] === KEY_DATA) message.writeInt32BE(-message.readInt32BE(HEADER_BYTES), HEADER_BYTES);
        if (message[0] !== NOTIFICATION || options.notifies === true) client.write(message);
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterFile(() => server.close());
  const url = new URL(databaseUrl);
  url.port = String((server.address() as AddressInfo).port);
  return url.href;
}

/** The error message of PgBouncer. */
function refusal(parameter: string): Buffer {
  const fields = `SFATAL\0C08P01\0Munsupported startup parameter: ${parameter}\0\0`;
  const header = Buffer.alloc(HEADER_BYTES);
  header.write('E');
  header.writeUInt32BE(4 + fields.length, 1);
  return Buffer.concat([header, Buffer.from(fields)]);
}
