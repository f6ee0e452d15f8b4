// PERDURE_SEARCH_LANGUAGE, as a worker reads it.
import { pino } from 'pino';
import { expect, it } from 'vitest';
import { createClient } from '../../client/index.ts';
import { afterFile } from '../../tools/test-kit/after-file.ts';
import { eventually } from '../../tools/test-kit/eventually.ts';
import { say } from '../../tools/test-kit/model-actions.ts';
import { startModelServer } from '../../tools/test-kit/model-server.ts';
import { scratchDir } from '../../tools/test-kit/scratch.ts';
import { freshDatabase, freshNamespace } from '../../tools/test-kit/servers.ts';
import { quietRuntime } from '../../worker/replay/quiet.ts';
import { startWorker } from '../../worker/start.ts';

it('T6 the language of the search is a setting of workers, and one that Postgres does not have is refused at the start', async () => {
  quietRuntime();
  const model = await startModelServer(() => [say('They were swimming.')]);
  afterFile(() => model.close());
  const { address, namespace, client: temporal } = await freshNamespace();
  const database = await freshDatabase();
  const client = createClient({ database, temporal });
  afterFile(() => client.end());
  const start = (language?: string) =>
    startWorker({
      env: {
        DATABASE_URL: database,
        TEMPORAL_ADDRESS: address,
        TEMPORAL_NAMESPACE: namespace,
        OPENAI_BASE_URL: model.url,
        PERDURE_MODEL: 'openai/test',
        PERDURE_DIR: scratchDir(),
        PERDURE_SWEEP_INTERVAL: '50ms',
        PERDURE_SEARCH_LANGUAGE: language,
      },
      log: pino({ level: 'silent' }),
    });
  const found = async () => (await client.reads.search('ada', { q: 'swim' })).items.map((hit) => hit.role);

  await expect(start('klingon')).rejects.toThrow(
    /PERDURE_SEARCH_LANGUAGE: expected a text search configuration of this Postgres: .*english.*simple/,
  );
  await expect(start('english; --')).rejects.toThrow(/PERDURE_SEARCH_LANGUAGE: expected .* such as simple or english/);
  const simple = await start();
  const { session_id: id } = (await client.openSession('ada', { agent: 'site-builder' })).session;
  const { run_seq } = await client.submit('ada', id, { id: 'm', text: 'What did they do?' });
  for await (const _ of client.follow('ada', id, run_seq));
  await eventually(async () => expect((await client.reads.search('ada', { q: 'swimming' })).items).toHaveLength(1));
  expect(await found()).toEqual([]);
  await simple.stop();
  const english = await start('english');
  await eventually(async () => expect(await found()).toEqual(['assistant']));
  await english.stop();
});
