// Requests that HTTP libraries would not send.
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';

/** A GET of the target as it is: fetch would normalize `..` in a path. */
export function sentRaw(
  url: string,
  target: string,
  headers: Record<string, string> = {},
): Promise<{ status: number | undefined; text: string }> {
  const { hostname, port } = new URL(url);
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number | undefined; text: string }>();
  request({ hostname, port, path: target, headers }, (answer) => {
    let text = '';
    answer.on('data', (chunk) => void (text += String(chunk)));
    answer.on('end', () => resolve({ status: answer.statusCode, text }));
  })
    .on('error', reject)
    .end();
  return promise;
}

/** A connection that sends arbitrary bytes. */
export class RawConnection implements Disposable {
  /** Everything received so far. */
  received = '';
  /** Settles when the connection is closed, with how long it was open in milliseconds. */
  readonly closed: Promise<number>;
  private readonly socket: Socket;

  private constructor(socket: Socket) {
    this.socket = socket;
    const from = performance.now();
    socket.on('data', (chunk) => void (this.received += chunk.toString('latin1')));
    socket.on('error', () => {});
    // Not by `once`, which would fail with the connection.
    this.closed = new Promise((resolve) => socket.on('close', () => resolve(performance.now() - from)));
  }

  static async to(url: string): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    const connection = new RawConnection(socket);
    await Promise.race([new Promise((resolve) => socket.once('connect', resolve)), connection.closed]);
    return connection;
  }

  /** Statuses of the responses, in order. */
  get statuses(): number[] {
    return [...this.received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  }

  get localPort(): number {
    return this.socket.localPort!;
  }

  get isOpen(): boolean {
    return !this.socket.destroyed && this.socket.readyState === 'open';
  }

  write(text: string): void {
    if (!this.socket.destroyed) this.socket.write(text, 'latin1');
  }

  /** Stops reading. */
  pause(): void {
    this.socket.pause();
  }

  /** Reads on after a pause, without keeping what it reads. Returns its number of bytes when the connection is closed. */
  async readToEnd(): Promise<number> {
    const before = this.socket.bytesRead;
    this.socket.removeAllListeners('data').resume();
    await this.closed;
    return this.socket.bytesRead - before;
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}
