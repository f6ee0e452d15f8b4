import { chmod, readdir, rm } from 'node:fs/promises';
import path from 'node:path';

/** Removes a file or folder, if there is one, also from folders that are read-only. Links are removed, not followed. */
export async function removeTree(target: string): Promise<void> {
  const remove = () => rm(target, { recursive: true, force: true });
  await remove().catch(async () => {
    await makeWritable(target);
    await remove();
  });
}

async function makeWritable(folder: string): Promise<void> {
  await chmod(folder, 0o700);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) await makeWritable(path.join(folder, entry.name));
  }
}
