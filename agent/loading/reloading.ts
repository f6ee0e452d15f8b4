// Loads a module of the application again when a file changes that it consists of, without restarting the process.
import { existsSync, type FSWatcher, watch } from 'node:fs';
import { createRequire, registerHooks } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { importDefault } from './import-default.ts';

/** Told about reloads. */
export interface ReloadReport {
  loaded(modulePath: string): void;
  /** The value of before is kept. */
  failed(error: unknown): void;
  /** There is no value yet: the load is repeated when a file changes. */
  waiting(error: unknown): void;
}

/** A module that is watched. */
interface Root {
  /** The files outside of node_modules that it was loaded from. */
  files: Set<string>;
  reload(): Promise<void>;
  changed: boolean;
}

/** Editors write a file in several steps. */
const SETTLE_MS = 60;
/** Besides loaded files: those that a module may read itself, in the folders of its files. */
const MAY_BE_READ = /\.(?:[cm]?[jt]sx?|json|md|txt|ya?ml|html)$/;
const VERSION = 'perdure-version';

const roots = new Set<Root>();
const folders = new Map<string, FSWatcher>();
let version = 0;
let settling: NodeJS.Timeout | undefined;
/** One after another, so that the newest is the last. */
let reloads = Promise.resolve();
let hooked = false;

/**
 * Loads a module, and again whenever a file of it changes: the module itself, what it imports outside of node_modules, and
 * text files next to these.
 * @param make checks the default export and makes a value of it
 * @returns a function that returns the newest value, once there is one; errors are reported, and the last value is kept
 * @throws {DefinitionError} if there is no such file
 */
export async function reloading<T>(
  modulePath: string,
  make: (exported: unknown) => T,
  report: ReloadReport,
): Promise<() => T> {
  followImports();
  const main = path.resolve(modulePath);
  if (!existsSync(main)) await importDefault(main);
  const root: Root = { files: new Set([main]), reload, changed: false };
  roots.add(root);
  const first = Promise.withResolvers<void>();
  let current: { value: T } | undefined;
  await load('');
  watchFolders();
  await keepingAlive(first.promise);
  return () => (current as { value: T }).value;

  async function load(query: string): Promise<void> {
    try {
      const value = make(await importDefault(main, query));
      if (query !== '') report.loaded(main);
      current = { value };
      first.resolve();
    } catch (error) {
      if (current === undefined) report.waiting(error);
      else report.failed(error);
    }
  }

  function reload(): Promise<void> {
    forgetRequired(root.files);
    return load(`?${VERSION}=${version}`);
  }
}

/** Waits for a promise that only a watcher settles; watchers do not keep the process running. */
async function keepingAlive(settled: Promise<void>): Promise<void> {
  const alive = setInterval(() => {}, 60_000);
  await settled.finally(() => clearInterval(alive));
}

/** Notes what watched modules import, and gives imports of a newer version of a module that version, too. */
function followImports(): void {
  if (hooked) return;
  hooked = true;
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const resolved = nextResolve(specifier, context);
      const parent = fileOf(context.parentURL);
      const file = fileOf(resolved.url);
      if (parent === undefined || file === undefined) return resolved;
      for (const { files } of roots) if (files.has(parent)) files.add(file);
      const parentVersion = new URL(context.parentURL ?? '').searchParams.get(VERSION);
      return parentVersion === null ? resolved : { ...resolved, url: `${resolved.url}?${VERSION}=${parentVersion}` };
    },
  });
}

/** The path of an application's file; undefined for packages and built-in modules. */
function fileOf(url: string | undefined): string | undefined {
  if (url === undefined || !url.startsWith('file:')) return undefined;
  const file = fileURLToPath(url);
  return file.includes(`${path.sep}node_modules${path.sep}`) ? undefined : file;
}

function watchFolders(): void {
  for (const folder of new Set([...roots].flatMap(({ files }) => [...files].map((file) => path.dirname(file))))) {
    if (folders.has(folder)) continue;
    const watcher = watch(folder, { persistent: false }, (_event, name) => noteChange(folder, name));
    // A deleted folder.
    watcher.on('error', () => {});
    folders.set(folder, watcher);
  }
}

/** Reloads the modules that the file belongs to once no file has changed for a moment. */
function noteChange(folder: string, name: string | null): void {
  const file = path.join(folder, name ?? '');
  const isLoaded = [...roots].some(({ files }) => files.has(file));
  for (const root of roots) {
    const mayRead = name === null || (!isLoaded && MAY_BE_READ.test(name));
    if (mayRead || root.files.has(file)) root.changed = true;
  }
  clearTimeout(settling);
  settling = setTimeout(() => {
    reloads = reloads.then(reloadChanged);
  }, SETTLE_MS).unref();
}

async function reloadChanged(): Promise<void> {
  version += 1;
  for (const root of roots) {
    if (!root.changed) continue;
    root.changed = false;
    await root.reload();
  }
  watchFolders();
}

/** CommonJS modules are cached by path. */
function forgetRequired(files: ReadonlySet<string>): void {
  const { cache } = createRequire(import.meta.url);
  for (const file of files) delete cache[file];
}
