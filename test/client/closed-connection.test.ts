import http2 from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';

it('H5 a call that waits for its retry ends when the connection is closed, and throws nowhere else', async () => {
  const { promise: refused, resolve } = Promise.withResolvers<void>();
  const server = http2.createServer();
  server.on('stream', (stream, { ':path': path }) => {
    const isConnecting = path?.endsWith('/GetSystemInfo');
    const unimplemented = '12';
    const unavailable = '14';
    stream.respond(
      {
        ':status': 200,
        'content-type': 'application/grpc',
        'grpc-status': isConnecting ? unimplemented : unavailable,
      },
      { endStream: true },
    );
    if (!isConnecting) resolve();
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  afterFile(() => server.close());
  const { port } = server.address() as AddressInfo;
  const { connection } = temporalClient({ connectionOptions: { address: `127.0.0.1:${port}` }, namespace: 'default' });
  const call = connection.workflowService.describeNamespace({ namespace: 'default' });
  await refused;
  await connection.close();
  await expect(call).rejects.toMatchObject({ code: 1, details: 'Channel has been shut down' });
});
