// A model provider on loopback that sends the events of a test as they are, for any provider's protocol.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A running server of events. */
export interface EventServer {
  /** For a provider's base URL. */
  url: string;
  /** The parsed bodies of the requests so far. */
  requests: Record<string, unknown>[];
  /** What the next requests get, one each: the connection is closed normally after the last event. The last one is repeated. */
  answer(...answers: (readonly string[])[]): void;
  close(): Promise<void>;
}

/** One event of server-sent events: with the name of its type, as most protocols have it. */
export function event(data: { type: string } & Record<string, unknown>): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Starts a server on a free port of the loopback interface. It answers nothing before `answer` is called. */
export async function startEventServer(): Promise<EventServer> {
  const requests: EventServer['requests'] = [];
  let answers: (readonly string[])[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      requests.push(JSON.parse(Buffer.concat(pieces).toString()) as Record<string, unknown>);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const each of (answers.length > 1 ? answers.shift() : answers[0]) ?? []) response.write(each);
      response.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    answer: (...next) => void (answers = next),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
