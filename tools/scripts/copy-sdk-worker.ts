// The package contains a copy of @temporalio/worker without its workflow bundler: webpack, swc and what they need would be
// 60 MB of an installation, and the package's workflows are bundled already. RxJS, which has 11 MB, is one file of the copy.
import { cp, glob, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { build } from 'esbuild';

const NAME = '@temporalio/worker';
/** Folder of the copy in dist/. */
const COPY = 'temporal-worker';
/** Bundled workflows, which only mention the package. */
const BUNDLES: ReadonlySet<string> = new Set(['workflows/bundle.js', 'worker/replay/bundle.js']);
const NO_BUNDLER = `new Proxy({}, { get() { throw new Error('this copy of ${NAME} has no workflow bundler'); } })`;

/** The copy's RxJS, and what imports it there. */
const RXJS = 'lib/rxjs.js';
const IMPORTS_OF_RXJS: [from: string, to: string][] = [
  ['require("rxjs")', 'require("./rxjs")'],
  ['require("rxjs/operators")', 'require("./rxjs").operators'],
];

/** Replacements in the copy; each must occur. */
const IN_COPY: Readonly<Record<string, readonly [from: string, to: string][]>> = {
  'lib/workflow/bundler.js': [
    ['__importStar(require("unionfs"))', NO_BUNDLER],
    ['__importStar(require("memfs"))', NO_BUNDLER],
    ['require("webpack")', NO_BUNDLER],
  ],
  'lib/workflow/bundler/patch-module-cache.js': [['require("webpack")', NO_BUNDLER]],
  'lib/rxutils.js': IMPORTS_OF_RXJS,
  'lib/worker.js': IMPORTS_OF_RXJS,
  'lib/workflow/bundler.d.ts': [
    ["import * as unionfs from 'unionfs';\nimport * as memfs from 'memfs';\n", ''],
    ["import type { Configuration } from 'webpack';", 'type Configuration = object;'],
    ['typeof unionfs.ufs, workflowsPath', 'object, workflowsPath'],
    ['typeof memfs.vol', 'object'],
    [
      'inputFilesystem: typeof unionfs.ufs, outputFilesystem: memfs.IFs',
      'inputFilesystem: object, outputFilesystem: object',
    ],
  ],
  'lib/workflow/bundler/patch-module-cache.d.ts': [
    ["import type { Compiler } from 'webpack';", 'type Compiler = object;'],
  ],
  'lib/worker-options.d.ts': [
    ["import type { Configuration as WebpackConfiguration } from 'webpack';", 'type WebpackConfiguration = object;'],
  ],
};

/** Copies the SDK's worker to `dist`, whose files then import the copy. */
export async function copySdkWorker(root: string, dist: string): Promise<void> {
  const from = path.join(root, 'node_modules', NAME);
  const to = path.join(dist, COPY);
  for (const part of ['LICENSE', 'package.json', 'lib']) {
    await cp(path.join(from, part), path.join(to, part), { recursive: true, filter: (file) => !file.endsWith('.map') });
  }
  for (const [file, replacements] of Object.entries(IN_COPY)) await replaceIn(path.join(to, file), replacements);
  await bundleRxjs(from, to);
  for await (const file of glob('**/*.{js,d.ts}', { cwd: dist })) {
    if (file.startsWith(`${COPY}/`) || BUNDLES.has(file)) continue;
    await importCopy(path.join(dist, file), to);
  }
}

/** Bundles RxJS, with its licence, as a file of the copy. */
async function bundleRxjs(worker: string, copy: string): Promise<void> {
  await build({
    stdin: { contents: `export * from 'rxjs'; export * as operators from 'rxjs/operators';`, resolveDir: worker },
    outfile: path.join(copy, RXJS),
    ...{ bundle: true, minify: true, format: 'cjs', platform: 'node' },
  });
  const { resolve } = createRequire(path.join(worker, 'package.json'));
  const licence = path.join(path.dirname(resolve('rxjs/package.json')), 'LICENSE.txt');
  await cp(licence, path.join(copy, 'lib', 'rxjs.LICENSE.txt'));
}

async function replaceIn(file: string, replacements: readonly [from: string, to: string][]): Promise<void> {
  let text = await readFile(file, 'utf8');
  for (const [from, to] of replacements) {
    if (!text.includes(from))
      throw new Error(`${file}: expected ${from}: adapt copy-sdk-worker.ts to the SDK's version`);
    text = text.replace(from, to);
  }
  await writeFile(file, text);
}

async function importCopy(file: string, copy: string): Promise<void> {
  const text = await readFile(file, 'utf8');
  const relative = path.relative(path.dirname(file), copy);
  const start = relative.startsWith('.') ? relative : `./${relative}`;
  const changed = text
    .replaceAll(new RegExp(`(['"])${NAME}/(lib/[^'"]+)\\1`, 'g'), `$1${start}/$2$1`)
    .replaceAll(new RegExp(`(['"])${NAME}\\1`, 'g'), `$1${start}/lib/index.js$1`);
  if (changed !== text) await writeFile(file, changed);
}
