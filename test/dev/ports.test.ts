import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it } from 'vitest';
import { freePort } from '../../dev/ports.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

it('H1 no port is given twice, not even to different processes', async () => {
  const dir = scratchDir();
  await mkdir(dir);
  const file = path.join(dir, 'takes-ports.ts');
  await writeFile(
    file,
    `import { freePort } from ${JSON.stringify(new URL('../../dev/ports.ts', import.meta.url).href)};
     const ports = [];
     for (let n = 0; n < 100; n += 1) ports.push(await freePort());
     process.send(ports);
     process.once('message', () => process.exit());`,
  );
  const others = Array.from({ length: 2 }, () => fork(file));
  const asked = others.map(async (other) => ((await once(other, 'message')) as [number[]])[0]);
  const own = Array.from({ length: 100 }, () => freePort());
  const ports = (await Promise.all([...asked, Promise.all(own)])).flat();
  expect(new Set(ports).size).toBe(300);
  for (const other of others) other.send('end');
});
