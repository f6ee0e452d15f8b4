import { createServer, type Server } from 'node:net';
import { DevError } from './error.ts';

// Below the range that systems take outgoing ports from, so that a port found free stays free.
const FIRST_PORT = 20_000;
const PORTS = 6_000;
/** Who is given a port listens on the one so much above it, too, and so keeps it from all others of ours. */
const CLAIM = 6_000;

/** Whether a server could listen on this port of `host` now. */
export function isPortFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** A certain port, or how to find one. */
export type PortChoice = number | (() => Promise<number>);

/**
 * The port to use.
 * @throws {DevError} PortTaken when a certain one is meant that is taken
 */
export async function choosePort(user: string, choice: PortChoice): Promise<number> {
  if (typeof choice !== 'number') return choice();
  if (await isPortFree(choice)) return choice;
  throw new DevError('PortTaken', `port ${choice} is taken, ${user} cannot use it`);
}

/** A port of the loopback interface that nothing listens on, and that nobody else is given while this process lives. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS);
    const claim = await claimed(port + CLAIM);
    if (claim === undefined) continue;
    if (await isPortFree(port)) return port;
    claim.close();
  }
}

/** A listener that keeps a port without keeping the process alive; undefined: somebody has it. */
function claimed(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const claim = createServer().unref();
    claim.once('error', () => resolve(undefined));
    claim.listen({ port, host: '127.0.0.1', exclusive: true }, () => resolve(claim));
  });
}

/** The first free port from `first` on. */
export async function nextFreePort(first: number, host?: string): Promise<number> {
  for (let port = first; port <= 65_535; port++) {
    if (await isPortFree(port, host)) return port;
  }
  throw new Error(`no free port from ${first} on`);
}
