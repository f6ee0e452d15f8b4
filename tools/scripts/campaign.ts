// `npm run campaign`: every property test, then what test/campaign/vitest.config.ts names, one file at a time with nothing
// beside it, all with a new seed. With arguments: Vitest's, for the latter only.
import { randomInt } from 'node:crypto';
import { execa } from 'execa';
import { measureSlowness } from './slowness.ts';

const CONFIG = 'test/campaign/vitest.config.ts';

const args = process.argv.slice(2);
const seed = (process.env['TEST_SEED'] ??= String(randomInt(2 ** 31)));
process.env['TEST_SLOWNESS'] ??= String(await measureSlowness());
console.log(`seed ${seed}; TEST_SEED=${seed} makes the same inputs again`);
if (args.length === 0) await vitest('related', 'tools/test-kit/cases.ts', '--run');
await vitest('run', '--config', CONFIG, ...args);

async function vitest(...command: string[]): Promise<void> {
  const { failed } = await execa(process.execPath, ['node_modules/vitest/vitest.mjs', ...command], {
    stdio: 'inherit',
    reject: false,
  });
  if (failed) process.exitCode = 1;
}
