// Checks the rules of import-rules.ts: which folder may import what, that tests outside test/ are pure, and how many
// top-level folders there are. Parses every file. oxlint finds import cycles.
import { existsSync, globSync, readdirSync } from 'node:fs';
import { builtinModules } from 'node:module';
import path from 'node:path';
import {
  IMPORT_RULES,
  type FolderRule,
  MOST_TOP_FOLDERS,
  NOT_IN_UNIT_TESTS,
  PACKAGES_OF_ROOMS,
  UNRESTRICTED,
} from './import-rules.ts';
import { type Import, readModule } from './modules.ts';

const root = path.join(import.meta.dirname, '..', '..');
/** The last two are projects of their own, with imports as their compiler wants them. */
const NOT_OURS = ['node_modules', 'dist', '.git', '.perdure', 'coverage', 'test/package/init', 'test/package/project'];
const isTest = (file: string) => /\.test\.tsx?$/.test(file) || file.startsWith('test/');
const folderOf = (file: string) => file.split('/')[0] ?? '';
const resolved = (file: string, specifier: string) => path.join(path.dirname(file), specifier);

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function allowsPackage(rule: FolderRule, name: string): boolean {
  if (rule.packages === 'any') return true;
  return rule.packages.some((one) => isNamedBy(one, name));
}

/** Whether a package is meant by an entry of a rule. */
function isNamedBy(entry: string, name: string): boolean {
  return entry.endsWith('*') ? name.startsWith(entry.slice(0, -1)) : name === entry;
}

const ruleOf = (file: string): FolderRule | undefined => IMPORT_RULES[file] ?? IMPORT_RULES[folderOf(file)];

/** The problem of an import; undefined: none. */
function problemOf(file: string, { specifier, typeOnly }: Import): string | undefined {
  const rule = isTest(file) ? undefined : ruleOf(file);
  if (specifier.startsWith('node:')) return undefined;
  if (builtinModules.includes(specifier)) return `write node:${specifier}`;
  if (!specifier.startsWith('.')) {
    const name = packageOf(specifier);
    const ofRoom = PACKAGES_OF_ROOMS[path.dirname(file)] ?? [];
    if (ofRoom.some((one) => isNamedBy(one, name))) return undefined;
    if (!rule || allowsPackage(rule, name) || (typeOnly && rule.typesOf?.includes(name))) return undefined;
    return `${path.dirname(file)}/ may not import the package ${name}`;
  }
  const target = resolved(file, specifier);
  if (!existsSync(path.join(root, target))) return `${specifier} does not exist`;
  if (!rule) return undefined;
  const isIn = (places: readonly string[]) =>
    places.some((place) => target === place || target.startsWith(`${place}/`));
  if (isIn([folderOf(file), ...rule.own]) && !isTest(target)) return undefined;
  if (typeOnly && isIn(rule.typesOf ?? [])) return undefined;
  return `${folderOf(file)}/ may not import ${target}`;
}

/** Why a test outside test/ is not pure: what it imports at run time, directly or through other files. */
function impurities(test: string, imports: ReadonlyMap<string, readonly Import[]>): string[] {
  const reached = new Set([test]);
  const found: string[] = [];
  for (const file of reached) {
    for (const { specifier, typeOnly } of imports.get(file) ?? []) {
      if (typeOnly) continue;
      if (specifier.startsWith('.')) reached.add(resolved(file, specifier));
      else if (NOT_IN_UNIT_TESTS.has(specifier))
        found.push(`${test}: imports ${specifier} (in ${file}): move it to test/`);
    }
  }
  return found;
}

/** Problems of the top-level folders: too many, or one with code but without an import rule. */
function folderProblems(files: readonly string[]): string[] {
  const folders = readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.') && !NOT_OURS.includes(entry.name))
    .map(({ name }) => name);
  const code = new Set(files.filter((file) => file.includes('/')).map(folderOf));
  const problems = [...code]
    .filter((folder) => !UNRESTRICTED.has(folder) && !IMPORT_RULES[folder])
    .map((folder) => `${folder}/: has no rule in import-rules.ts`);
  if (folders.length > MOST_TOP_FOLDERS)
    problems.push(`${folders.length} folders at the top, at most ${MOST_TOP_FOLDERS} are allowed`);
  return problems;
}

/** Allowed packages that no file under their rule imports: a rule says what a folder is built on. */
function unusedPackages(imports: ReadonlyMap<string, readonly Import[]>): string[] {
  const code = [...imports].filter(([file]) => !isTest(file));
  const unused = (place: string, allowed: readonly string[], isUnder: (file: string) => boolean) => {
    const names = code.flatMap(([file, all]) =>
      isUnder(file) ? all.map(({ specifier }) => packageOf(specifier)) : [],
    );
    return allowed
      .filter((one) => !names.some((name) => isNamedBy(one, name)))
      .map((one) => `${place}: imports nothing from ${one}: remove it from import-rules.ts`);
  };
  const ofFolders = Object.entries(IMPORT_RULES).flatMap(([place, rule]) => {
    const types = (rule.typesOf ?? []).filter((one) => !IMPORT_RULES[folderOf(one)]);
    const allowed = rule.packages === 'any' ? types : [...rule.packages, ...types];
    return unused(place, allowed, (file) => ruleOf(file) === rule);
  });
  const ofRooms = Object.entries(PACKAGES_OF_ROOMS).flatMap(([room, allowed]) =>
    unused(room, allowed, (file) => path.dirname(file) === room),
  );
  return [...ofFolders, ...ofRooms];
}

const files = globSync('**/*.{ts,tsx,js}', { cwd: root, exclude: NOT_OURS }).filter((file) => !file.endsWith('.d.ts'));
const imports = new Map(files.map((file) => [file, readModule(root, file).imports]));
const problems = [
  ...folderProblems(files),
  ...unusedPackages(imports),
  ...files.flatMap((file) =>
    (imports.get(file) ?? []).flatMap((one) => {
      const problem = problemOf(file, one);
      return problem === undefined ? [] : [`${file}: ${problem}`];
    }),
  ),
  ...files
    .filter((file) => isTest(file) && !UNRESTRICTED.has(folderOf(file)))
    .flatMap((test) => impurities(test, imports)),
];
for (const problem of problems) console.log(problem);
console.log(`${files.length} files, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
