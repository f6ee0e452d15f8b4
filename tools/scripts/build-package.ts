// `npm pack` runs this first: it builds dist/, the contents of the package. JavaScript and declarations of its exports and
// programs, the SQL of migrations and store, the chat page, and the workflow bundle, so that users need no bundler.
import { spawnSync } from 'node:child_process';
import { cp, glob, mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { buildPage } from '../dev/build-page.ts';

const root = path.join(import.meta.dirname, '..', '..');
const dist = path.join(root, 'dist');

await rm(dist, { recursive: true, force: true });
const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
if (status !== 0) process.exit(status ?? 1);

for await (const file of glob(['migrations/*.sql', 'store/sql/*.sql', 'worker/*.json'], { cwd: root }))
  await cp(path.join(root, file), path.join(dist, file));

await buildPage();
await mkdir(path.join(dist, 'web'), { recursive: true });
await cp(path.join(root, 'web', 'dist'), path.join(dist, 'web', 'dist'), { recursive: true });

// Only the files of the API's page and their licence, because the whole package has twelve megabytes.
const swaggerUi = path.join(root, 'node_modules', 'swagger-ui-dist');
for (const file of ['swagger-ui-bundle.js', 'swagger-ui.css', 'swagger-ui-bundle.js.LICENSE.txt', 'LICENSE', 'NOTICE'])
  await cp(path.join(swaggerUi, file), path.join(dist, 'swagger-ui', file));

const { code } = await bundleWorkflowCode({
  workflowsPath: path.join(dist, 'workflows', 'index.js'),
  logger: new DefaultLogger('WARN'),
});
await writeFile(path.join(dist, 'workflows', 'bundle.js'), withoutRoot(code));

/** Removes this machine's paths from the bundle's source map. */
function withoutRoot(bundle: string): string {
  return bundle.replace(/(sourceMappingURL=data:[^,]*;base64,)([\w+/=]+)/, (_whole, head: string, map: string) => {
    const text = Buffer.from(map, 'base64').toString('utf8').replaceAll(root, 'perdure');
    return head + Buffer.from(text).toString('base64');
  });
}
