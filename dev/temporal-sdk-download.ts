// Has the SDK download the Temporal CLI into the folder given as argument; the SDK does so only when it starts a server.
// A separate process, so that it can be killed if the network does not respond.
import { TestWorkflowEnvironment } from '@temporalio/testing';

const downloadDir = process.argv[2];
if (downloadDir === undefined) throw new Error('usage: temporal-sdk-download.ts <folder>');
const environment = await TestWorkflowEnvironment.createLocal({
  server: { executable: { type: 'cached-download', downloadDir } },
});
await environment.teardown();
