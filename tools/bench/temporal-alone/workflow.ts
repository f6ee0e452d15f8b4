import { condition, defineUpdate, proxyActivities, setHandler } from '@temporalio/workflow';

const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({ startToCloseTimeout: '10s' });

export const turnUpdate = defineUpdate('turn');

/** Handles updates forever; each runs one empty activity. */
export async function alone(): Promise<void> {
  setHandler(turnUpdate, () => nothing());
  await condition(() => false);
}
