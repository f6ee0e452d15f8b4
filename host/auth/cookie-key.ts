import { randomBytes, randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { ConfigError } from '../../config/error.ts';

const KEY_BYTES = 32;
const KEY_FILE = 'cookie.key';
const KEY_IN_HEX = new RegExp(`^[0-9a-f]{${2 * KEY_BYTES}}$`, 'i');

/**
 * The 32-byte key that signs cookies, from `dir/cookie.key` (readable by its owner only). The first start creates it;
 * hosts that start at the same time agree on one key.
 * @throws {ConfigError} when the file holds anything else: such a key would let others forge cookies
 */
export async function cookieKey(dir: string): Promise<Buffer<ArrayBuffer>> {
  const file = path.join(dir, KEY_FILE);
  const hex = (await readIfThere(file)) ?? (await createKey(file));
  if (KEY_IN_HEX.test(hex)) return Buffer.from(hex, 'hex');
  throw new ConfigError([
    {
      name: file,
      expected:
        `a key of ${KEY_BYTES} bytes in hexadecimal digits; delete the file and start again to make a new one ` +
        '(browsers identified by a cookie become new users)',
    },
  ]);
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Links a complete file into place, so that a crash leaves no partial key. The first of several links wins. */
async function createKey(file: string): Promise<string> {
  await mkdir(path.dirname(file), { recursive: true });
  const temporary = `${file}.${randomUUID()}`;
  try {
    await using handle = await open(temporary, 'wx', 0o600);
    await handle.writeFile(randomBytes(KEY_BYTES).toString('hex'));
    await handle.sync();
    await link(temporary, file).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(temporary, { force: true });
  }
  return (await readFile(file, 'utf8')).trim();
}
