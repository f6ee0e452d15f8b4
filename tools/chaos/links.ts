// The connections between the parts of a campaign, each through a proxy that can make it slow, lossy, or stop it.
import { latency, packetLoss, slowStatements, startTcpProxy, type TcpProxy } from '../test-kit/tcp-proxy.ts';
import type { Random } from './random.ts';

/** What a link leads to. */
export type LinkTarget = 'postgres' | 'temporal' | 'model' | 'host';

/** The connections of one part to one other. */
export interface Link {
  /** Such as `worker-1 to postgres`. */
  name: string;
  to: LinkTarget;
  port: number;
  /** Every statement on its way to Postgres takes 1 to 4 s longer. */
  slowStatements(random: Random): void;
  /** A delay each way. */
  delay(random: Random): void;
  /** Some packets are lost and sent again. */
  losePackets(random: Random): void;
  /** Nothing passes; connections stay open. */
  stall(): void;
  /** As it was before any of these. */
  restore(): void;
}

const LATENCY_MS = { least: 20, most: 400 };
const STATEMENT_MS = { least: 1_000, most: 4_000 };
const LOSS = 0.05;

/** Links to a port of loopback; `end` closes all that were made. */
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
