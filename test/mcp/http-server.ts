// An MCP server over streamable HTTP on loopback.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { makeServer } from './tools.ts';

/** A running server. */
export interface HttpServer {
  url: string;
  port: number;
  notes: string[];
  /** The headers of the newest request. */
  headers: IncomingMessage['headers'];
  /** The server's side of each session, oldest first. */
  servers: McpServer[];
  /** Sessions are forgotten, as after a restart. */
  forget(): void;
  /** Also ends open connections. */
  close(): Promise<void>;
}

/** What a client sends. */
export type RpcBody = { method?: string; id?: number };

export interface HttpOptions {
  port?: number;
  make?: typeof makeServer;
  look?: string;
  /** Answers a request instead of the server; false: the server answers. */
  instead?(body: RpcBody | undefined, response: ServerResponse): boolean;
}

/** Starts a server on a free port, or on the given one. The tools that die end all connections. */
export async function startHttpServer({
  port = 0,
  make = makeServer,
  look,
  instead,
}: HttpOptions = {}): Promise<HttpServer> {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const notes: string[] = [];
  const server = createServer((request, response) => {
    void answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  });
  let hasDied = false;
  const die = () => {
    if (hasDied) return;
    hasDied = true;
    server.closeAllConnections();
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    started.headers = request.headers;
    const body = request.method === 'POST' ? (JSON.parse(await textOf(request)) as RpcBody) : undefined;
    if (instead?.(body, response) === true) return;
    const id = request.headers['mcp-session-id'];
    if (id !== undefined && !sessions.has(String(id))) {
      response.writeHead(404).end();
      return;
    }
    const transport = sessions.get(String(id)) ?? (await open());
    await transport.handleRequest(request, response, body);
  }

  async function open(): Promise<StreamableHTTPServerTransport> {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    const mcp = make({ note: (line) => void notes.push(line), die, ...(look !== undefined && { look }) });
    started.servers.push(mcp);
    await mcp.connect(transport);
    return transport;
  }

  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const used = (server.address() as AddressInfo).port;
  const started: HttpServer = {
    ...{ url: `http://127.0.0.1:${used}/mcp`, port: used, notes, headers: {}, servers: [] },
    forget: () => sessions.clear(),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return started;
}

async function textOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString('utf8');
}
