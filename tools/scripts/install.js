// Runs before every npm script: installs the locked dependencies if node_modules is missing or does not match
// package-lock.json. Plain JavaScript for Node 18 and newer, because it runs before anything is installed.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const OLDEST_NODE = 24;

/** @typedef {{ version?: string, integrity?: string, optional?: boolean, link?: boolean }} Entry */
/** @typedef {Record<string, Entry>} Packages the `packages` table of a lockfile, by path */

/**
 * The packages of a lockfile; undefined if it cannot be read.
 * @param {string} path
 * @returns {Packages | undefined}
 */
function readPackages(path) {
  try {
    const lockfile = /** @type {{ packages?: Packages }} */ (JSON.parse(readFileSync(path, 'utf8')));
    return lockfile.packages;
  } catch {
    return undefined;
  }
}

/**
 * Why node_modules does not match the lockfile; undefined if it does.
 * @param {Packages} wanted
 * @param {Packages | undefined} installed
 * @returns {string | undefined}
 */
function staleness(wanted, installed) {
  if (!installed) return 'dependencies are not installed';
  for (const [path, entry] of Object.entries(wanted)) {
    // Folders of this repository, and links to them, are not installed.
    if (!path.startsWith('node_modules/') || entry.link) continue;
    const found = installed[path];
    // Optional packages for other platforms are never installed here.
    if (!found && !entry.optional) return `${path} is missing`;
    if (found && (found.version !== entry.version || found.integrity !== entry.integrity)) {
      return `${path} is ${found.version}, package-lock.json says ${entry.version}`;
    }
  }
  return undefined;
}

/** Runs `npm ci` with the npm that runs this script (npm_execpath), or the one on PATH. */
function npmCi() {
  const args = ['ci', '--include=dev', '--include=optional', '--no-audit', '--no-fund', '--loglevel=error'];
  const cli = process.env.npm_execpath;
  const result = cli?.endsWith('npm-cli.js')
    ? spawnSync(process.execPath, [cli, ...args], { cwd: root, stdio: 'inherit' })
    : spawnSync('npm', args, { cwd: root, stdio: 'inherit', shell: process.platform === 'win32' });
  if (result.status !== 0) {
    console.error('perdure: npm ci failed; see its output above');
    process.exit(result.status || 1);
  }
}

const link = join(root, 'node_modules', '.bin', process.platform === 'win32' ? 'node.cmd' : 'node');

/**
 * Creates node_modules/.bin/node if npm did not: older versions omit it, since the packages of several platforms have it.
 * Not if that Node does not run, as on a system without glibc.
 */
function linkNode() {
  const node = join(root, 'node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node');
  if (process.platform === 'win32' || !existsSync(node)) return;
  if (spawnSync(node, ['--version']).status === 0) symlinkSync(relative(dirname(link), node), link);
}

const wanted = readPackages(join(root, 'package-lock.json'));
const reason = wanted && staleness(wanted, readPackages(join(root, 'node_modules', '.package-lock.json')));
if (reason) {
  console.error(`perdure: ${reason}; running npm ci`);
  npmCi();
}
if (!existsSync(link)) linkNode();
// npm scripts use node_modules/.bin/node if it exists; otherwise the system's Node must be new enough.
if (!existsSync(link) && Number(process.versions.node.split('.')[0]) < OLDEST_NODE) {
  console.error(`perdure: Node ${OLDEST_NODE} or newer is needed, this is ${process.version}`);
  process.exit(1);
}
