import type * as client from '@modelcontextprotocol/sdk/client/index.js';
import type * as stdio from '@modelcontextprotocol/sdk/client/stdio.js';
import type * as http from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type * as types from '@modelcontextprotocol/sdk/types.js';
import { DefinitionError } from '../definition/define.ts';

/** An optional peer dependency: most installations use no MCP servers. */
const PACKAGE = '@modelcontextprotocol/sdk';

/** What this package uses of it. Written out: the inferred type's declaration has 400 KB. */
export type McpSdk = typeof client & typeof stdio & typeof http & typeof types;

/**
 * The client of the official SDK, loaded on first use.
 * @throws {DefinitionError} naming the package, if it is not installed
 */
export async function loadMcpSdk(): Promise<McpSdk> {
  try {
    const modules = await Promise.all([
      import('@modelcontextprotocol/sdk/client/index.js'),
      import('@modelcontextprotocol/sdk/client/stdio.js'),
      import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
      import('@modelcontextprotocol/sdk/types.js'),
    ]);
    const [clients, overStdio, overHttp, messages] = modules;
    return { ...clients, ...overStdio, ...overHttp, ...messages };
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    throw new DefinitionError(`mcp: the package ${PACKAGE} is not installed: run \`npm install ${PACKAGE}\``, {
      cause,
    });
  }
}
