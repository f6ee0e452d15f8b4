// The TypeScript examples in the documentation work: all are type-checked, the agents are loaded, and the transport runs
// against a host.
import { execFile, spawnSync } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadAgents } from '../../agent/loading/agent-registry.ts';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { startHost } from '../../tools/test-kit/host.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';
import { type CodeBlock, codeBlocks } from './code-blocks.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const run = promisify(execFile);
/** Below node_modules, so that packages are found. */
const folder = path.join(ROOT, 'node_modules', '.cache', 'perdure', `docs-${process.pid}`);

/** Declarations that the examples assume. */
const GIVEN = `
import type { AgentDefinition } from 'perdure';
import type { PerdureClient } from 'perdure/client';
import type { Host } from 'perdure/host';
declare global {
  const agent: AgentDefinition;
  const yourAdkAgent: import('@google/adk').LlmAgent;
  const agents: AgentDefinition[];
  const client: PerdureClient;
  const host: Host;
  const signal: AbortSignal;
  const Bun: { serve(options: { fetch: (request: Request) => Response | Promise<Response> }): void };
  function yourOwnSignIn(request: Request): Promise<string>;
}
`;

// A test of the package carries out the tutorial, in a project.
const blocks = (await codeBlocks()).filter(({ file }) => file !== 'docs/tutorial.md');
const fileOf = ({ file, line, language }: CodeBlock) => `${file.replaceAll(/\W/g, '-')}-${line}.${language}`;
beforeAll(async () => {
  await mkdir(folder, { recursive: true });
  const faces = {
    perdure: 'agent',
    'perdure/testing': 'dev/testing',
    ...Object.fromEntries(['client', 'worker', 'host', 'domain'].map((f) => [`perdure/${f}`, f])),
    'perdure/state': 'client/state',
  };
  const paths = Object.fromEntries(
    Object.entries(faces).map(([name, dir]) => [name, [path.join(ROOT, dir, 'index.ts')]]),
  );
  paths['perdure/chat'] = [path.join(ROOT, 'client', 'chat.ts')];
  paths['perdure/adk'] = [path.join(ROOT, 'client', 'state', 'adk.ts')];
  const compilerOptions = { paths, noUnusedLocals: false, noUnusedParameters: false };
  const config = {
    extends: path.join(ROOT, 'tsconfig.json'),
    compilerOptions,
    include: ['*.ts', '*.tsx'],
    exclude: [],
  };
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify(config));
  await writeFile(path.join(folder, 'given.d.ts'), GIVEN);
  for (const block of blocks) await writeFile(path.join(folder, fileOf(block)), `${block.text}\nexport {};\n`);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it('H5 examples type-check', { timeout: patient(300_000) }, async () => {
  expect(blocks.length).toBeGreaterThan(6);
  const tsc = path.join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
  expect({ status, stdout }).toEqual({ status: 0, stdout: '' });
});

it('H9 agent modules load unchanged', async () => {
  const modules = blocks.filter(({ text }) => text.includes('export default ['));
  const loaded = await Promise.all(modules.map((block) => loadAgents(path.join(folder, fileOf(block)), [])));
  expect(loaded.map((agents) => agents.default.id)).toEqual(['secretary', 'support']);
});

it('H8 the AI SDK’s transport works with a host, without React', async () => {
  const { address, namespace, databaseUrl, workspaces } = await startRuntime({
    defaultModel: 'rehearsal/site-builder',
  });
  const temporal = temporalClient({ connectionOptions: { address }, namespace });
  const host = await startHost({ databaseUrl, temporal, models: ['rehearsal/site-builder'], workspaces });
  const block = blocks.find(({ text }) => text.includes('readUIMessageStream'))!;
  const file = path.join(folder, `${fileOf(block)}.mjs`);
  await writeFile(file, block.text.replace('http://localhost:8787', host.url));
  const { stdout } = await run(process.execPath, [file]);
  expect(stdout).toContain("type: 'text'");
  const { body } = await host.as('ada').get('/api/sessions/my-first-chat/messages');
  expect(body.items).toHaveLength(2);
});
