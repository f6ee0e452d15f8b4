// Workflows for sequencer.test.ts.
import { CancellationScope, sleep } from '@temporalio/workflow';
import { Sequencer, type Part, resume } from '../../workflows/sequencer.ts';

/** Returns in which order its parts ran: the turn, which waits for a timer of a second, and the cancellation. */
export async function orderedParts(): Promise<Part[]> {
  const order: Part[] = [];
  const workflow = CancellationScope.current();
  return CancellationScope.nonCancellable(async () => {
    const sequencer = new Sequencer();
    const cancelled = sequencer.until('cancellation', () => workflow.consideredCancelled);
    const both = cancelled.then(() => order.push('cancellation'));
    await resume(sequencer, 'turn', sleep('1s'));
    order.push('turn');
    await both;
    return order;
  });
}

/** Returns of each scope that its local work ran in whether it can be cancelled. */
export async function scopesOfWork(): Promise<boolean[]> {
  const sequencer = new Sequencer();
  const scopes = new Set<CancellationScope>();
  for (let n = 0; n < 3; n += 1) {
    await sequencer.next('command');
    await sequencer.exclusively(async () => void scopes.add(CancellationScope.current()));
  }
  return Array.from(scopes, ({ cancellable }) => cancellable);
}
