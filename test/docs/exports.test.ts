import { expect, it } from 'vitest';
import { publicExports } from './public-exports.ts';

it('H5 the package exports what exports.txt lists (`npm test -- test/docs/exports -u` rewrites it)', async () => {
  await expect(await publicExports()).toMatchFileSnapshot('exports.txt');
});
