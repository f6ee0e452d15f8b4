// Checks the walls between the rooms of a folder (rooms.ts), and the names of files and exports. Parses every product file.
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { UNRESTRICTED } from './import-rules.ts';
import { readModule } from './modules.ts';
import { nameProblems } from './name-problems.ts';
import { wallProblems } from './room-problems.ts';
import { BY_SUBJECT, ROOMS } from './rooms.ts';

const root = path.join(import.meta.dirname, '..', '..');
const NOT_OURS = ['node_modules', 'dist', '.perdure', 'coverage', 'dev/init/template', ...UNRESTRICTED];
const knip = JSON.parse(readFileSync(path.join(root, 'knip.json'), 'utf8')) as {
  workspaces: { '.': { entry: string[] } };
};
const entries = knip.workspaces['.'].entry.filter((pattern) => !pattern.includes('.test.'));
const isEntry = (file: string) => entries.some((pattern) => path.matchesGlob(file, pattern));

const files = new Map(
  globSync('*/**/*.{ts,tsx}', { cwd: root, exclude: NOT_OURS })
    .filter((file) => !/\.(?:d|test)\.tsx?$/.test(file))
    .toSorted()
    .map((file) => [file, readModule(root, file)]),
);
const problems = [
  ...Object.entries(ROOMS).flatMap(([top, rooms]) => wallProblems(files, top, Object.keys(rooms), isEntry)),
  ...nameProblems(files, isEntry, BY_SUBJECT),
];
for (const problem of problems) console.log(problem);
console.log(`${files.size} files, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
