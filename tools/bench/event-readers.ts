// Readers of `/events` in a process of their own: bare sockets, so that thousands of them cost little.
import { connect, type Socket } from 'node:net';
import pLimit from 'p-limit';
import { serveParent } from './child.ts';

/** Connections that are being made at a time. */
const AT_ONCE = 50;

const sockets: Socket[] = [];
let events = 0;
let closed = 0;

/** Resolves when the first event has come. */
function open(port: number, session: string, user: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = connect(port, '127.0.0.1');
  sockets.push(socket);
  socket.write(
    `GET /api/sessions/${session}/events HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nx-perdure-user: ${user}\r\n\r\n`,
  );
  socket.on('data', (data) => {
    if (!data.includes('event: ')) return;
    events += 1;
    resolve();
  });
  socket.on('error', reject);
  socket.on('close', () => (closed += 1));
  return promise;
}

serveParent({
  /** Opens one reader per session. */
  open: async ({ port, sessions, user }: { port: number; sessions: string[]; user: string }) => {
    await pLimit(AT_ONCE).map(sessions, (session) => open(port, session, user));
  },
  counts: () => ({ events, closed }),
});
