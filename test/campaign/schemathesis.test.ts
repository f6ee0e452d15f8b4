import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SignJWT } from 'jose';
import { beforeAll, expect, it } from 'vitest';
import { tokenUser } from '../../host/index.ts';
import { SEED } from '../../tools/test-kit/cases.ts';
import { startHost, type TestHost } from '../../tools/test-kit/host.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { startRuntime } from '../../tools/test-kit/runtime.ts';
import { installSchemathesis, schemathesis } from '../../tools/test-kit/schemathesis.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';

// schemathesis generates valid and invalid requests from the OpenAPI document and sends them to a whole system. No response
// may be a 5xx or differ from the document.

const SECRET = 'a secret of at least thirty-two bytes';
const SECONDS = 90;
/** Streams that end only when the reader disconnects: tested in test/http/turns.test.ts, rendezvous.test.ts and multiplex.test.ts. */
const ENDLESS = ['/api/sessions/{id}/events', '/api/rendezvous', '/api/multiplex'];
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
}, patient(300_000));

/** Opens sessions, so that requests get further than SessionNotFound. */
async function sessions(count: number): Promise<string[]> {
  const views = await Promise.all(Array.from({ length: count }, () => host.client.openSession('ada')));
  return views.map((view) => view.session.session_id);
}

it(
  'Q3 H2 generated requests get the documented responses, and never a 5xx',
  async () => {
    const config = `
    warnings = false
    request-timeout = 20
    max-stream-events = 50
    [dictionaries.sessions]
    values = ${JSON.stringify(await sessions(5))}
    [parameters]
    "path.id" = { dictionary = "sessions", probability = 0.7 }
    "query.session_id" = { dictionary = "sessions", probability = 0.7 }
    # It has no serializers for lines of JSON and for archives.
    [[operations]]
    include-path = "/api/import"
    phases.fuzzing.enabled = false
    [[operations]]
    include-path = "/api/initiatives/import"
    phases.fuzzing.enabled = false
    [checks.not_a_server_error]
    expected-statuses = ["2xx", "3xx", "4xx", 501]
    # An array of more items than allowed may be larger than any body may be.
    [checks.negative_data_rejection]
    expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429", "5xx"]
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
        ...['--seed', String(SEED), '--max-time', String(SECONDS), '--no-shrink', '--continue-on-failure'],
      ],
      dir,
    );
    expect(code, output).toBe(0);
    const errors = host.logs.filter((line) => line.level >= 50);
    expect(errors).toEqual([]);
  },
  patient(150_000),
);
