// An MCP server in a process of its own. Arguments: a file for what it notes, and what the tool `look` says of itself.
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { makeServer, noteIn } from './tools.ts';

const [notes = '', look] = process.argv.slice(2);
const died = `${notes}.died`;

/** Only once, also when it is started again. */
function die(): void {
  if (existsSync(died)) return;
  writeFileSync(died, '');
  process.exit(1);
}

/** Writes without end, as fast as it is read. */
async function flood(kind: string): Promise<void> {
  const ping = (id: number) => `${JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' })}\n`;
  process.stdin.pause();
  for (let n = 0; ; n += 1) {
    const piece =
      kind === 'message' ? 'x'.repeat(65_536) : Array.from({ length: 100 }, (_, k) => ping(n * 100 + k)).join('');
    if (!process.stdout.write(piece)) await once(process.stdout, 'drain');
  }
}

const note = noteIn(notes);
note('started');
await makeServer({ note, die, flood, ...(look !== undefined && { look }) }).connect(new StdioServerTransport());
