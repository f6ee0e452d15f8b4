// `npm run count [-- <ref>…]`: lines of code per folder, in the working tree or in several commits, side by side.
// Product code, tests and tools are counted separately; documentation, data and lockfiles are not counted.
import { execFileSync } from 'node:child_process';
import path from 'node:path';

/** Lines in all, and those that are neither blank nor comments only. */
interface Lines {
  all: number;
  code: number;
}

const KINDS = ['product', 'tests', 'tools'] as const;
type Kind = (typeof KINDS)[number];

const root = path.join(import.meta.dirname, '..', '..');
const CODE = ['ts', 'tsx', 'js', 'sql', 'css', 'html', 'sh'];
const COMMENT_OR_BLANK = String.raw`^[[:space:]]*(//|/?\*|--|$)`;
// In commits before the folder tools/ its parts are top-level folders.
const TOOLS: ReadonlySet<string> = new Set(['tools', 'bench', 'chaos', 'scripts']);
const TEST = /\.test\.tsx?$|^test\/|^tools\/test-kit\/|^vitest\.config\.ts$/;

/** Path → number of lines, of the working tree where there is no ref. */
function countLines(ref: string | undefined, ...pattern: string[]): Map<string, number> {
  const where = ref === undefined ? ['--untracked'] : [ref];
  const args = ['grep', '--count', '-I', '-E', ...pattern, ...where, '--', ...CODE.map((type) => `*.${type}`)];
  const output = execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 });
  const lines = output.trimEnd().split('\n');
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(':');
      return [line.slice(ref === undefined ? 0 : ref.length + 1, at), Number(line.slice(at + 1))];
    }),
  );
}

function kindOf(file: string): Kind {
  if (TEST.test(file)) return 'tests';
  return TOOLS.has(file.split('/')[0] ?? '') ? 'tools' : 'product';
}

/** The top-level folder; for tools and the test kit the folder below it, also in older commits. */
function folderOf(file: string): string {
  const [folder] = file
    .replace(/^tools\//, '')
    .replace(/^test\/support\//, 'test-kit/')
    .split('/', 1);
  return file.includes('/') ? `${folder}/` : 'top level';
}

/** Row of the table → lines: `product`, `product host/`; the same for the other kinds. Each type of file is listed like a folder: `*.sql`. */
function count(ref: string | undefined): Map<string, Lines> {
  const code = countLines(ref, '-v', '-e', COMMENT_OR_BLANK);
  const sums = new Map<string, Lines>();
  for (const [file, all] of countLines(ref, '-e', '')) {
    const kind = kindOf(file);
    for (const row of [kind, `${kind} ${folderOf(file)}`, `${kind} *${path.extname(file)}`]) {
      const sum = sums.get(row) ?? { all: 0, code: 0 };
      sums.set(row, { all: sum.all + all, code: sum.code + (code.get(file) ?? 0) });
    }
  }
  return sums;
}

function table(refs: (string | undefined)[]): string {
  const counts = refs.map(count);
  const names = [...new Set(counts.flatMap((sums) => [...sums.keys()]))];
  const rows = names.toSorted((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  const cells = rows.map((row) => {
    const title = row.includes(' ') ? `– ${row.slice(row.indexOf(' ') + 1)}` : `**${row}**`;
    return [title].concat(counts.flatMap((sums) => [sums.get(row)?.all ?? 0, sums.get(row)?.code ?? 0]).map(String));
  });
  const head = ['', ...refs.flatMap((ref) => [`${ref ?? 'working tree'}: lines`, 'of these code'])];
  const lines = [head, head.map((_, at) => (at === 0 ? '---' : '---:')), ...cells];
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n');
}

/** Sorts by kind; within a kind its sum, folders, types of files. */
function rank(name: string): number {
  const [kind, part] = name.split(' ', 2) as [Kind, string | undefined];
  return KINDS.indexOf(kind) * 3 + (part === undefined ? 0 : part.startsWith('*') ? 2 : 1);
}

const refs = process.argv.slice(2);
console.log(table(refs.length === 0 ? [undefined] : refs));
