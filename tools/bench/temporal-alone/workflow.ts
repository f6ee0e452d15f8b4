import { condition, defineUpdate, proxyActivities, setHandler } from '@temporalio/workflow';

const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({ startToCloseTimeout: '10s' });

export const turnUpdate = defineUpdate('turn');

/** Takes updates for ever; each is one activity that does nothing. */
export async function alone(): Promise<void> {
  setHandler(turnUpdate, () => nothing());
  await condition(() => false);
}
