// The result of `npm pack`, unpacked into a folder with the dependencies that npm would install.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { lstat, mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';

const root = path.join(import.meta.dirname, '..', '..');
const modules = path.join(root, 'node_modules');
const run = promisify(execFile);

type Manifest = {
  bin: Record<string, string>;
  dependencies: Record<string, string>;
  optionalDependencies?: Record<string, string>;
};

/** Packs, and unpacks into `node_modules/perdure` of `project`, beside its declared dependencies and nothing else. */
export async function installTarball(project: string): Promise<{ installed: string; manifest: Manifest }> {
  const installed = path.join(project, 'node_modules', 'perdure');
  await mkdir(installed, { recursive: true });
  await run('npm', ['pack', '--silent', '--pack-destination', project], { cwd: root });
  const tarball = (await readdir(project)).find((name) => name.endsWith('.tgz'))!;
  await run('tar', ['-xzf', path.join(project, tarball), '-C', installed, '--strip-components=1']);
  const manifest = JSON.parse(await readFile(path.join(installed, 'package.json'), 'utf8')) as Manifest;
  await link(project, Object.keys(manifest.dependencies));
  return { installed, manifest };
}

/** Links packages of this repository into the project's node_modules. */
export async function link(project: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const place = path.join(project, 'node_modules', name);
    await mkdir(path.dirname(place), { recursive: true });
    await symlink(path.join(modules, name), place);
  }
}

/** Type-checks a project, the declarations that it uses included. Returns TypeScript's output. */
export async function typeCheck(project: string): Promise<string> {
  const tsc = path.join(modules, 'typescript', 'bin', 'tsc');
  const { stdout } = await run(process.execPath, [tsc, '-p', project, '--pretty', 'false'], { cwd: project }).catch(
    (error: unknown) => error as { stdout: string },
  );
  return stdout;
}

/**
 * Megabytes of disk that `npm install perdure` takes in an empty project, as `du -sm` counts: the package, its dependencies
 * and theirs, without peers; by folder.
 */
export async function installedSizes(installed: string): Promise<Map<string, number>> {
  const found = new Map<string, string>([[installed, 'perdure']]);
  for (const [folder] of found) {
    const { dependencies = {}, optionalDependencies = {} } = JSON.parse(
      await readFile(path.join(folder, 'package.json'), 'utf8'),
    ) as Partial<Manifest>;
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const from = folder === installed ? root : folder;
      const dependency = folderOf(name, from);
      if (dependency !== undefined) found.set(dependency, name);
      else if (name in dependencies) throw new Error(`${name} of ${folder} is not installed`);
    }
  }
  const sizes = new Map<string, number>();
  for (const [folder, name] of found) sizes.set(name, (sizes.get(name) ?? 0) + (await diskUsage(folder)) / 1024 ** 2);
  return sizes;
}

/** Where Node finds the package; undefined if it is not installed. */
function folderOf(name: string, from: string): string | undefined {
  const folders = createRequire(path.join(from, 'package.json')).resolve.paths(name) ?? [];
  return folders.map((folder) => path.join(folder, name)).find((folder) => isPackage(folder));
}

function isPackage(folder: string): boolean {
  return existsSync(path.join(folder, 'package.json'));
}

/** Bytes of the disk blocks of a folder, without the packages in it. */
async function diskUsage(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true });
  const sizes = entries
    .filter((entry) => entry.name !== 'node_modules')
    .map(async (entry) => {
      const place = path.join(folder, entry.name);
      const own = (await lstat(place)).blocks * 512;
      return entry.isDirectory() ? own + (await diskUsage(place)) : own;
    });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
