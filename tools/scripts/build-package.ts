// `npm pack` runs this first: it builds dist/, the contents of the package. JavaScript and declarations of its exports and
// programs, the SQL of migrations and store, the chat page, and the workflow bundle, so that users need no bundler.
import { spawnSync } from 'node:child_process';
import { cp, glob, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { build } from 'esbuild';
import { bundle } from '../../worker/sandbox/bundle.ts';
import { buildPage } from './build-page.ts';
import { copySdkWorker } from './copy-sdk-worker.ts';
import { unusedDeclarations } from './unused-declarations.ts';

const root = path.join(import.meta.dirname, '..', '..');
const dist = path.join(root, 'dist');

await rm(dist, { recursive: true, force: true });
const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
if (status !== 0) process.exit(status ?? 1);

const DATA = [
  ...['migrations/*.sql', 'store/sql/*.sql', 'worker/sandbox/*.json'],
  // What `perdure dev` and `perdure init` need.
  ...['deploy/temporal-*', 'docker-compose.yml', '.env.example', 'dev/init/template'],
];
for await (const file of glob(DATA, { cwd: root }))
  await cp(path.join(root, file), path.join(dist, file), { recursive: true });

await buildPage();
await mkdir(path.join(dist, 'web'), { recursive: true });
await cp(path.join(root, 'web', 'dist'), path.join(dist, 'web', 'dist'), { recursive: true });

// Only the files of the API's page and their licence, because the whole package has twelve megabytes.
const swaggerUi = path.join(root, 'node_modules', 'swagger-ui-dist');
for (const file of ['swagger-ui-bundle.js', 'swagger-ui.css', 'swagger-ui-bundle.js.LICENSE.txt', 'LICENSE', 'NOTICE'])
  await cp(path.join(swaggerUi, file), path.join(dist, 'swagger-ui', file));

const workflows = path.join(dist, 'workflows', 'index.js');
await writeFile(path.join(dist, 'workflows', 'bundle.js'), withoutRoot(await bundle(workflows)));
const capture = path.join(dist, 'worker', 'replay', 'capture.js');
// Without most of its source map, half of it: a replay reports events, not places in the code.
await writeFile(path.join(dist, 'worker', 'replay', 'bundle.js'), withoutMap(await bundle(workflows, [capture])));

// Of the tokenizer one encoding, because the whole package has 29 megabytes.
const TOKENIZER = 'gpt-tokenizer/encoding/o200k_base';
await build({
  entryPoints: [TOKENIZER],
  absWorkingDir: root,
  outfile: path.join(dist, 'tokenizer', 'o200k_base.js'),
  ...{ bundle: true, minify: true, format: 'esm', platform: 'node' },
});
await cp(path.join(root, 'node_modules', 'gpt-tokenizer', 'LICENSE'), path.join(dist, 'tokenizer', 'LICENSE'));
const tokens = path.join(dist, 'agent', 'compaction', 'tokens.js');
const importing = await readFile(tokens, 'utf8');
if (!importing.includes(`'${TOKENIZER}'`)) throw new Error(`${tokens}: expected an import of ${TOKENIZER}`);
await writeFile(tokens, importing.replace(`'${TOKENIZER}'`, "'../../tokenizer/o200k_base.js'"));

await copySdkWorker(root, dist);

const { exports } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, string | { types: string }>;
};
const typed = Object.values(exports).flatMap((entry) =>
  typeof entry === 'string' ? [] : [path.join(root, entry.types)],
);
for (const file of await unusedDeclarations(dist, typed)) await rm(file);

/** With an empty source map, because the SDK requires one. */
function withoutMap(text: string): string {
  const map = Buffer.from(JSON.stringify({ version: 3, sources: [], names: [], mappings: '' })).toString('base64');
  return text.replace(/(sourceMappingURL=data:[^,]*;base64,)[\w+/=]+/, (_whole, head: string) => head + map);
}

/** Removes this machine's paths from the bundle's source map. */
function withoutRoot(text: string): string {
  return text.replace(/(sourceMappingURL=data:[^,]*;base64,)([\w+/=]+)/, (_whole, head: string, map: string) => {
    const sources = Buffer.from(map, 'base64').toString('utf8').replaceAll(root, 'perdure');
    return head + Buffer.from(sources).toString('base64');
  });
}
