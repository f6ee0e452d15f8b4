// The network links between the processes of a campaign, each a proxy that can delay, lose or stop traffic.
import type { Random } from '../test-kit/random.ts';
import { latency, packetLoss, slowStatements, startTcpProxy, type TcpProxy } from '../test-kit/tcp-proxy.ts';

/** The server that a link leads to. */
export type LinkTarget = 'postgres' | 'temporal' | 'model' | 'host';

/** All connections of one process to one server. */
export interface Link {
  /** Such as `worker-1 to postgres`. */
  name: string;
  to: LinkTarget;
  port: number;
  /** Every statement on its way to Postgres takes 1 to 4 s longer. */
  slowStatements(random: Random): void;
  /** Adds latency in both directions. */
  delay(random: Random): void;
  /** Loses some packets, which TCP retransmits. */
  losePackets(random: Random): void;
  /** Nothing passes; connections stay open. */
  stall(): void;
  /** Ends the impairment. */
  restore(): void;
}

const LATENCY_MS = { least: 20, most: 400 };
const STATEMENT_MS = { least: 1_000, most: 4_000 };
const LOSS = 0.05;

/** Creates links to ports of loopback; `end` closes them all. */
export class Links {
  readonly all: Link[] = [];
  private readonly proxies: TcpProxy[] = [];

  async add(from: string, to: LinkTarget, targetPort: number): Promise<Link> {
    const proxy = await startTcpProxy({ port: targetPort });
    this.proxies.push(proxy);
    const link: Link = {
      name: `${from} to ${to}`,
      to,
      port: proxy.port,
      slowStatements: (random) => {
        proxy.holdBack = slowStatements(() => random.between(STATEMENT_MS.least, STATEMENT_MS.most));
      },
      delay: (random) => {
        const most = random.between(LATENCY_MS.least, LATENCY_MS.most);
        proxy.holdBack = latency(() => random.between(most / 2, most));
      },
      losePackets: (random) => {
        proxy.holdBack = packetLoss(LOSS, () => random.next());
      },
      stall: () => proxy.stall(),
      restore: () => {
        proxy.holdBack = undefined;
        proxy.resume();
      },
    };
    this.all.push(link);
    return link;
  }

  async end(): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.close()));
  }
}
