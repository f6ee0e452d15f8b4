// Runs as a process of its own, so that it can be ended when the network does not answer: has the SDK download the
// Temporal CLI into the folder given as argument. The SDK offers this only by starting a server.
import { TestWorkflowEnvironment } from '@temporalio/testing';

const downloadDir = process.argv[2];
if (downloadDir === undefined) throw new Error('usage: temporal-sdk-download.ts <folder>');
const environment = await TestWorkflowEnvironment.createLocal({
  server: { executable: { type: 'cached-download', downloadDir } },
});
await environment.teardown();
