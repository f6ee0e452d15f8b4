import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type GenerateKeyPairResult, type JWK } from 'jose';
import { afterFile } from './after-file.ts';

/** A key pair with the public key as JWK. */
export interface IssuerKey extends GenerateKeyPairResult {
  kid: string;
  alg: string;
}

/** The key set (JWKS) of a token issuer, over HTTP. */
export interface KeyServer {
  url: string;
  /** Paths requested so far. */
  asked: string[];
  /** Replaces the published keys. */
  publish(...keys: IssuerKey[]): void;
  /** Replaces the response. */
  answer(how: (request: IncomingMessage, response: ServerResponse) => void): void;
}

export async function issuerKey(kid: string, alg = 'RS256'): Promise<IssuerKey> {
  return { ...(await generateKeyPair(alg, { extractable: true })), kid, alg };
}

/** Starts a key server and stops it after the file. */
export async function startKeyServer(): Promise<KeyServer> {
  const asked: string[] = [];
  let how: Parameters<KeyServer['answer']>[0] = (_request, response) => response.writeHead(404).end();
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    how(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterFile(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/jwks.json`,
    asked,
    answer: (next) => void (how = next),
    publish: (...keys) => {
      how = (_request, response) => {
        void Promise.all(keys.map(published)).then((set) =>
          response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: set })),
        );
      };
    },
  };
}

async function published({ publicKey, kid, alg }: IssuerKey): Promise<JWK> {
  return { ...(await exportJWK(publicKey)), kid, alg };
}
