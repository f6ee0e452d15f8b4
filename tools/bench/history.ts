import { setTimeout as delay } from 'node:timers/promises';
import type { System } from './servers.ts';

/** Events and bytes of a workflow's history. */
export interface HistorySize {
  events: number;
  bytes: number;
}

/** The last workflow task of a turn completes after its answer; a history unchanged for this long is complete. */
const REST_MS = 40;

/** How a session's history grows. */
export class HistoryMeter {
  private readonly system: System;
  private readonly sessionId: string;
  private last: (HistorySize & { execution: string }) | undefined;

  constructor(system: System, sessionId: string) {
    this.system = system;
    this.sessionId = sessionId;
  }

  /** Growth since the last call; NaN at the first call and after a continue-as-new. */
  async grown(): Promise<HistorySize> {
    const before = this.last;
    let size = await this.look();
    for (let again = size; ; size = again) {
      await delay(REST_MS);
      again = await this.look();
      if (again.events === size.events) break;
    }
    this.last = size;
    if (before?.execution !== size.execution) return { events: Number.NaN, bytes: Number.NaN };
    return { events: size.events - before.events, bytes: size.bytes - before.bytes };
  }

  private async look(): Promise<HistorySize & { execution: string }> {
    const found = await this.system.client.temporal.workflow.getHandle(this.sessionId).describe();
    return { events: found.historyLength, bytes: found.historySize ?? 0, execution: found.runId };
  }
}
