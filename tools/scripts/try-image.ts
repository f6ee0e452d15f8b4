// `npm run try:image`: runs the Dockerfile's steps in folders, without a container engine, and starts the image's services of
// docker-compose.yml (migrate, worker, host) as the image's user, with its own Postgres and Temporal server. Then checks
// health, runs a turn over HTTP, and measures how long each service takes to stop.
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, copyFile, cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SignJWT } from 'jose';
import { parseConfig } from '../../config/config.ts';
import { duration } from '../../config/units.ts';
import { freePort } from '../../dev/ports.ts';
import { startPostgres } from '../../dev/postgres.ts';
import { spawnTied, type TiedProcess } from '../../dev/spawn-tied.ts';
import { startTemporal } from '../../dev/temporal.ts';
import { composeServices, type Service } from '../test-kit/compose.ts';
import { buildContext, dockerfile, ROOT, type Stage, type Step } from '../test-kit/image.ts';

const isRoot = process.getuid?.() === 0;

/** Texts of the compose file and their local replacements: addresses and folders. */
type Here = [text: string, here: string][];

/** Runs the stages, each with a folder as its root. @returns the folder of the last stage: the image */
async function build(stages: Stage[], context: string[], scratch: string, node: string): Promise<string> {
  let root = '';
  for (const { name, image, steps } of stages) {
    root = path.join(scratch, name);
    const env: NodeJS.ProcessEnv = { ...own(process.env), PATH: `${path.dirname(node)}:${process.env['PATH']}` };
    let cwd = root;
    for (const step of steps) {
      const from = performance.now();
      const [first = ''] = step.args;
      if (step.keyword === 'WORKDIR') await mkdir((cwd = path.join(root, first)), { recursive: true });
      else if (step.keyword === 'ENV') env[first.split('=')[0] ?? ''] = first.split('=')[1];
      else if (step.keyword === 'RUN') runStep(step.text.replaceAll(/(?<=\s)\/(?=\w)/g, `${root}/`), cwd, env);
      else if (step.keyword === 'COPY') await copy(step, cwd, step.from && path.join(scratch, step.from), context);
      const seconds = ((performance.now() - from) / 1000).toFixed(1);
      console.log(`${name} (${image}): ${step.keyword} ${step.text} (${seconds} s)`);
    }
  }
  return root;
}

/** The environment with npm's registry and certificates, without the variables of the npm that runs this script. */
function own(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('npm_')));
}

function runStep(command: string, cwd: string, env: NodeJS.ProcessEnv): void {
  const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', command], { cwd, env, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ended with ${status}\n${stdout}${stderr}`);
}

async function copy(step: Step, cwd: string, stage: string | undefined, context: string[]): Promise<void> {
  const to = path.join(cwd, step.args.at(-1) ?? '');
  for (const source of step.args.slice(0, -1)) {
    if (stage !== undefined) await cp(path.join(stage, source), to, { recursive: true, verbatimSymlinks: true });
    else for (const file of source === '.' ? context : [source]) await cp(path.join(ROOT, file), path.join(to, file));
  }
}

/** A service of the compose file as a process in the image's folder. */
function start({ command, environment, stop_grace_period }: Service, image: string, here: Here): Promise<TiedProcess> {
  const [program = '', ...args] = command;
  const env = Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, put(value, here)]));
  return spawnTied(put(program, here), args, {
    cwd: path.join(image, 'app'),
    env: { NODE_ENV: 'production', ...env },
    // As the image's USER, which owns nothing in it but /data.
    ...(isRoot && { uid: 1000, gid: 1000 }),
    output: 2,
    stopPlan: [{ signal: 'SIGTERM', waitMs: duration('10s').parse(stop_grace_period) }],
  });
}

function put(text: string, here: Here): string {
  return here.reduce((sofar, [from, to]) => sofar.replaceAll(from, to), text);
}

/** Repeats a service's health check until it succeeds. @throws {Error} after a minute */
async function healthy(name: string, { healthcheck }: Service, here: Here): Promise<void> {
  const [, program = '', ...args] = healthcheck.test.map((word) => put(word, here));
  for (let tries = 0; tries < 60; tries++) {
    const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' });
    if (status === 0) return console.log(`${name} is healthy`);
    if (tries % 10 === 9) console.log(`${name} is not healthy yet`, stderr);
    await delay(1_000);
  }
  throw new Error(`${name} is not healthy`);
}

/** Runs a turn of the rehearsal model, as a user with a token. @throws {Error} if it does not end in `verifying` */
async function turn(url: string, secret: string): Promise<void> {
  const key = new TextEncoder().encode(secret);
  const token = await new SignJWT({ sub: 'ada' })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('5m')
    .sign(key);
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Build me a site about tea' }] };
  const body = JSON.stringify({ id: 'tea', trigger: 'submit-message', messages: [message] });
  const stream = await (await fetch(`${url}/api/chat`, { method: 'POST', headers, body })).text();
  const session = await (await fetch(`${url}/api/sessions/tea`, { headers })).text();
  if (!session.includes('"phase":"verifying"')) throw new Error(`the turn did not build:\n${stream}\n${session}`);
  const page = await (await fetch(url)).text();
  if (!page.includes('<script')) throw new Error('the chat page is missing');
  if ((await fetch(`${url}/api/sessions`)).status !== 401) throw new Error('a request without a token was not refused');
  console.log(
    `a turn of ${stream.split('\n\n').length} events; the chat page is served; without a token the API answers 401`,
  );
}

async function stopped(name: string, child: TiedProcess): Promise<void> {
  const from = performance.now();
  const { code } = await child.stop();
  if (code !== 0) throw new Error(`${name} ended with ${code}`);
  console.log(`${name} stopped in ${((performance.now() - from) / 1000).toFixed(1)} s`);
}

async function run(image: string, scratch: string, node: string): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const postgres = await startPostgres({ dir: path.join(scratch, 'postgres'), ephemeral: true });
  stack.defer(() => postgres.stop());
  const temporal = await startTemporal({ dir: scratch, cacheDir: parseConfig(process.env).dir });
  stack.defer(() => temporal.stop());
  const secret = randomBytes(32).toString('hex');
  const { password, host: address } = new URL(postgres.url);
  const { migrate, worker, host } = await composeServices({ POSTGRES_PASSWORD: password, PERDURE_JWT_SECRET: secret });
  if (!migrate || !worker || !host) throw new Error('docker-compose.yml lacks a service');
  const port = String(await freePort());
  const here: Here = [
    ['postgres:5432', address],
    ['temporal:7233', temporal.address],
    ['/data', path.join(image, 'data')],
    ['8787', port],
    ['9464', String(await freePort())],
    ['node', node],
  ];
  const { code } = await (await start(migrate, image, here)).exited;
  if (code !== 0) throw new Error(`migrate ended with ${code}`);
  const [atWork, serving] = [await start(worker, image, here), await start(host, image, here)];
  stack.defer(async () => void (await Promise.all([atWork.stop(), serving.stop()])));
  await healthy('worker', worker, here);
  await healthy('host', host, here);
  await turn(`http://127.0.0.1:${port}`, secret);
  await stopped('host', serving);
  await stopped('worker', atWork);
}

async function main(): Promise<void> {
  const scratch = await mkdtemp(path.join(tmpdir(), 'perdure-image-'));
  try {
    // The image's user must be able to enter it.
    await chmod(scratch, 0o755);
    const node = path.join(scratch, 'bin', 'node');
    await mkdir(path.dirname(node));
    await copyFile(process.execPath, node);
    const image = await build(await dockerfile(), await buildContext(), scratch, node);
    console.log(
      `/app has ${spawnSync('du', ['-sm', path.join(image, 'app')], { encoding: 'utf8' }).stdout.split('\t')[0]} MB`,
    );
    await run(image, scratch, node);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

await main();
