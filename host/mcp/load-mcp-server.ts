import { PerdureError } from '../../domain/errors.ts';

/** An optional peer dependency: most hosts serve no MCP clients. */
const PACKAGE = '@modelcontextprotocol/sdk';

/**
 * The server of the official SDK, loaded on first use.
 * @throws {PerdureError} `NotSupported`, naming the package, if it is not installed
 */
export async function loadMcpServer() {
  try {
    const [server, transport] = await Promise.all([
      import('@modelcontextprotocol/sdk/server/mcp.js'),
      import('@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'),
    ]);
    return { ...server, ...transport };
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    const message = `this host cannot serve MCP clients: the package ${PACKAGE} is not installed beside Perdure`;
    throw new PerdureError('NotSupported', message, { cause });
  }
}
