import { createServer, type Server } from 'node:net';
import getPort, { portNumbers } from 'get-port';
import { DevError } from './error.ts';

// Below the range that systems take outgoing ports from, so that a port found free stays free.
const FIRST_PORT = 20_000;
const PORTS = 6_000;
/** A process that is given a port also listens on the port this much above it, which reserves it across processes. */
const RESERVATION_OFFSET = 6_000;

/** Whether a server could listen on this port of `host` now. */
export function isPortFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** A fixed port, or a function that finds one. */
export type PortChoice = number | (() => Promise<number>);

/**
 * The port to use.
 * @throws {DevError} PortTaken when a fixed port is taken
 */
export async function choosePort(user: string, choice: PortChoice): Promise<number> {
  if (typeof choice !== 'number') return choice();
  if (await isPortFree(choice)) return choice;
  throw new DevError('PortTaken', `port ${choice} is taken, ${user} cannot use it`);
}

/**
 * A free port of the loopback interface that no process of this repository is given again while this process lives.
 * get-port reserves ports within one process only, so two test workers could get the same one.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS);
    const reservation = await reserve(port + RESERVATION_OFFSET);
    if (reservation === undefined) continue;
    if (await isPortFree(port)) return port;
    reservation.close();
  }
}

/** A listener that does not keep the process alive; undefined if the port is taken. */
function reserve(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const reservation = createServer().unref();
    reservation.once('error', () => resolve(undefined));
    reservation.listen({ port, host: '127.0.0.1', exclusive: true }, () => resolve(reservation));
  });
}

/** The first free port from `first` on. */
export function nextFreePort(first: number, host = '127.0.0.1'): Promise<number> {
  return getPort({ port: portNumbers(first, 65_535), host });
}
