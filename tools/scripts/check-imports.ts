// Fails on an import that the folder's rule does not allow, on one that leads nowhere, and on cycles. Reads the whole
// tree by syntax: type imports count too.
import { existsSync, globSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import path from 'node:path';
import { parseSync } from 'oxc-parser';
import { IMPORT_RULES, type FolderRule } from './import-rules.ts';

type Import = { specifier: string; typeOnly: boolean };

const root = path.join(import.meta.dirname, '..', '..');
const NOT_OURS = ['node_modules', 'dist', '.perdure', 'coverage'];
const isTest = (file: string) => /\.test\.tsx?$/.test(file) || file.startsWith('test/');
const folderOf = (file: string) => file.split('/')[0] ?? '';

/** Everything that a file imports or exports from elsewhere. */
function importsOf(file: string): Import[] {
  const { module, errors } = parseSync(file, readFileSync(path.join(root, file), 'utf8'));
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  const allTypes = (entries: { isType: boolean }[]) => entries.length > 0 && entries.every((entry) => entry.isType);
  const imports = module.staticImports.map((one) => ({
    specifier: one.moduleRequest.value,
    typeOnly: allTypes(one.entries),
  }));
  const exports = module.staticExports.flatMap(({ entries }) =>
    entries.flatMap((entry) =>
      entry.moduleRequest ? [{ specifier: entry.moduleRequest.value, typeOnly: entry.isType }] : [],
    ),
  );
  return [...imports, ...exports];
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function allowsPackage(rule: FolderRule, name: string): boolean {
  if (rule.packages === 'any') return true;
  return rule.packages.some((one) => (one.endsWith('*') ? name.startsWith(one.slice(0, -1)) : name === one));
}

/** What is wrong with one import; undefined when nothing is. */
function judge(file: string, { specifier, typeOnly }: Import): string | undefined {
  const rule = isTest(file) ? undefined : (IMPORT_RULES[file] ?? IMPORT_RULES[folderOf(file)]);
  if (specifier.startsWith('node:')) return undefined;
  if (builtinModules.includes(specifier)) return `write node:${specifier}`;
  if (!specifier.startsWith('.')) {
    const name = packageOf(specifier);
    if (!rule || allowsPackage(rule, name) || (typeOnly && rule.typesOf?.includes(name))) return undefined;
    return `${folderOf(file)}/ may not import the package ${name}`;
  }
  const target = path.join(path.dirname(file), specifier);
  if (!existsSync(path.join(root, target))) return `${specifier} is not there`;
  if (!rule) return undefined;
  const isIn = (places: readonly string[]) =>
    places.some((place) => target === place || target.startsWith(`${place}/`));
  if (isIn([folderOf(file), ...rule.own]) && !isTest(target)) return undefined;
  if (typeOnly && isIn(rule.typesOf ?? [])) return undefined;
  return `${folderOf(file)}/ may not import ${target}`;
}

/** One cycle through each file from which one is found first. */
function cyclesIn(graph: Map<string, string[]>): string[] {
  const state = new Map<string, 'open' | 'done'>();
  const found: string[] = [];
  const visit = (file: string, trail: string[]): void => {
    if (state.get(file) === 'open') found.push([...trail.slice(trail.indexOf(file)), file].join(' → '));
    if (state.has(file)) return;
    state.set(file, 'open');
    for (const next of graph.get(file) ?? []) visit(next, [...trail, file]);
    state.set(file, 'done');
  };
  for (const file of graph.keys()) visit(file, []);
  return found;
}

const files = globSync('**/*.{ts,tsx,js}', { cwd: root, exclude: NOT_OURS }).filter((file) => !file.endsWith('.d.ts'));
const graph = new Map<string, string[]>();
const problems: string[] = [];
for (const file of files) {
  const imports = importsOf(file);
  const local = imports.filter(({ specifier }) => specifier.startsWith('.'));
  graph.set(
    file,
    local.map(({ specifier }) => path.join(path.dirname(file), specifier)),
  );
  for (const one of imports) {
    const problem = judge(file, one);
    if (problem !== undefined) problems.push(`${file}: ${problem}`);
  }
}
problems.push(...cyclesIn(graph).map((cycle) => `cycle: ${cycle}`));
for (const problem of problems) console.log(problem);
console.log(`${files.length} files, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
