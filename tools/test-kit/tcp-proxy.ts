// A TCP proxy on loopback between two parts of a system, to make the network between them slow or lossy, or to stop it.
import { once } from 'node:events';
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net';

/** Which way bytes go: `up` from the client to the server, `down` back. */
export type Direction = 'up' | 'down';

/** How long a chunk is held back, in milliseconds. Later chunks of its direction wait behind it, as TCP keeps order. */
export type HoldBack = (chunk: Buffer, direction: Direction) => number;

export interface TcpProxy {
  host: string;
  port: number;
  /** Holds chunks back until it is set to undefined again. What is already held back keeps its time. */
  holdBack: HoldBack | undefined;
  /** Nothing passes, either way, until `resume`; connections stay open. */
  stall(): void;
  resume(): void;
  /** Resets all connections; answers how many there were. */
  reset(): number;
  close(): Promise<void>;
}

/** Above this a sender is told to wait, in bytes held back a direction. */
const MOST_HELD_BACK = 1024 * 1024;

/** Starts a proxy on a free port of 127.0.0.1 in front of `target`, which need not be up. */
export async function startTcpProxy(target: { host?: string; port: number }): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  const state = {
    holdBack: undefined as HoldBack | undefined,
    stalled: undefined as PromiseWithResolvers<void> | undefined,
  };
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    const upstream = createConnection({ host: '127.0.0.1', ...target, noDelay: true, allowHalfOpen: true });
    const pair = [client, upstream] as const;
    pairs.add(pair);
    for (const socket of pair) {
      socket.on('error', () => {});
      socket.once('close', () => {
        pairs.delete(pair);
        for (const each of pair) each.destroy();
      });
    }
    forward(client, upstream, 'up', state);
    forward(upstream, client, 'down', state);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const reset = () => {
    const count = pairs.size;
    for (const pair of pairs) for (const socket of pair) socket.resetAndDestroy();
    return count;
  };
  return {
    host: '127.0.0.1',
    port,
    get holdBack() {
      return state.holdBack;
    },
    set holdBack(holdBack) {
      state.holdBack = holdBack;
    },
    stall: () => void (state.stalled ??= Promise.withResolvers()),
    resume: () => {
      state.stalled?.resolve();
      state.stalled = undefined;
    },
    reset,
    close: async () => {
      state.stalled?.resolve();
      server.close();
      reset();
      await once(server, 'close');
    },
  };
}

type State = { holdBack: HoldBack | undefined; stalled: PromiseWithResolvers<void> | undefined };

/** Passes bytes on in order, each chunk at its time, and then the end. */
function forward(from: Socket, to: Socket, direction: Direction, state: State): void {
  let last: Promise<unknown> = Promise.resolve();
  let dueAt = 0;
  let held = 0;
  from.on('data', (chunk: Buffer) => {
    const now = performance.now();
    dueAt = Math.max(dueAt, now + (state.holdBack?.(chunk, direction) ?? 0));
    const dueIn = dueAt - now;
    held += chunk.length;
    if (held > MOST_HELD_BACK) from.pause();
    last = last
      .then(() => pass(chunk, to, dueIn > 0 ? dueAt : 0, state))
      .then(() => {
        held -= chunk.length;
        if (held <= MOST_HELD_BACK && from.isPaused()) from.resume();
      });
  });
  from.on('end', () => {
    last = last.then(() => to.end());
  });
}

async function pass(chunk: Buffer, to: Socket, dueAt: number, state: State): Promise<void> {
  const wait = dueAt - performance.now();
  if (dueAt > 0 && wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  while (state.stalled !== undefined) await state.stalled.promise;
  if (to.destroyed || to.writableEnded) return;
  if (!to.write(chunk)) await Promise.race([once(to, 'drain'), once(to, 'close')]).catch(() => {});
}

/**
 * Holds back statements on their way to Postgres, not the start of a connection: after the length-only start-up packet
 * and the password messages ('p'), a client's message begins with its type (PostgreSQL documentation, 54.7).
 */
export function slowStatements(delayMs: () => number): HoldBack {
  return (chunk, direction) =>
    direction === 'up' && [0, 0x70, 0x58].includes(chunk[0] ?? 0) ? 0 : direction === 'up' ? delayMs() : 0;
}

/** A network with a delay each way. */
export function latency(delayMs: () => number): HoldBack {
  return () => delayMs();
}

const PACKET_BYTES = 1_448;
/** First retransmission time-out of Linux (RFC 6298 with a minimum of 200 ms); it doubles with each further loss. */
const RETRANSMISSION_MS = 200;
/** Beyond so many losses of one packet in a row it would look like a partition. */
const MOST_RETRANSMISSIONS = 2;

/** Packets that get lost, as the receiving program sees it: a pause until the packet has been sent again. */
export function packetLoss(probability: number, random: () => number = Math.random): HoldBack {
  return (chunk) => {
    let pause = 0;
    for (let at = 0; at < chunk.length; at += PACKET_BYTES) {
      for (let n = 0; n < MOST_RETRANSMISSIONS && random() < probability; n += 1) pause += RETRANSMISSION_MS * 2 ** n;
    }
    return Math.min(pause, RETRANSMISSION_MS * (2 ** MOST_RETRANSMISSIONS - 1));
  };
}
