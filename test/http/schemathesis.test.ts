import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SignJWT } from 'jose';
import { beforeAll, expect, it } from 'vitest';
import { tokenUser } from '../../host/index.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';
import { installSchemathesis, schemathesis } from '../../tools/test-kit/schemathesis.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

// schemathesis generates valid and invalid requests from the OpenAPI document and sends them to a whole system. No response
// may be a 5xx or differ from the document.

const SECRET = 'a secret of at least thirty-two bytes';
const SECONDS = 20;
/** Streams that end only when the reader disconnects: tested in test/http/turns.test.ts and rendezvous.test.ts. */
const ENDLESS = ['/api/sessions/{id}/events', '/api/rendezvous'];
/** 503 and 501 pass, because the document has them for a deployment that lacks something. */
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
  'response_headers_conformance',
  'negative_data_rejection',
  'missing_required_header',
  'unsupported_method',
  'allow_header_conformance',
  'ignored_auth',
];

const dir = scratchDir();
let folder: string;
let host: TestHost;
let token: string;
beforeAll(async () => {
  folder = await installSchemathesis();
  const runtime = await startRuntime({ script: () => [say('A short answer.')] });
  host = await startHost({
    databaseUrl: runtime.databaseUrl,
    temporal: runtime.temporal,
    workspaces: runtime.workspaces,
    parts: { identify: tokenUser({ secret: SECRET }) },
  });
  token = await new SignJWT({ sub: 'ada' })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(SECRET));
}, 300_000);

/** Opens sessions, so that requests get further than SessionNotFound. */
async function sessions(count: number): Promise<string[]> {
  const views = await Promise.all(Array.from({ length: count }, () => host.client.openSession('ada')));
  return views.map((view) => view.session.session_id);
}

it('Q3 H2 generated requests get the documented responses, and never a 5xx', async () => {
  const config = `
    warnings = false
    request-timeout = 20
    max-stream-events = 50
    [dictionaries.sessions]
    values = ${JSON.stringify(await sessions(5))}
    [parameters]
    "path.id" = { dictionary = "sessions", probability = 0.7 }
    "query.session_id" = { dictionary = "sessions", probability = 0.7 }
    # It has no serializer for lines of JSON.
    [[operations]]
    include-path = "/api/import"
    phases.fuzzing.enabled = false
    [checks.not_a_server_error]
    expected-statuses = ["2xx", "3xx", "4xx", 501]
  `;
  await mkdir(dir, { recursive: true });
  const file = path.join(dir, 'schemathesis.toml');
  await writeFile(file, config);
  const { code, output } = await schemathesis(
    folder,
    [
      ...['--config-file', file, 'run', `${host.url}/openapi.json`],
      ...['--header', `Authorization: Bearer ${token}`],
      ...['--checks', CHECKS.join(','), '--mode', 'all', '--phases', 'examples,coverage,fuzzing'],
      ...ENDLESS.flatMap((each) => ['--exclude-path', each]),
      ...['--seed', '1', '--max-time', String(SECONDS), '--no-shrink', '--continue-on-failure'],
    ],
    dir,
  );
  if (process.env['DEBUG_ST']) await writeFile(process.env['DEBUG_ST'], output);
  expect(code, output).toBe(0);
  const errors = host.logs.filter((line) => line.level >= 50);
  expect(errors).toEqual([]);
}, 150_000);
