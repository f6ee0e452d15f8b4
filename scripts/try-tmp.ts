import faultAgent from '../test/faults/agent.ts';
import { rm } from 'node:fs/promises';
import { startPostgres } from '/work/main/dev/postgres.ts';
import { startTemporal } from '/work/main/dev/temporal.ts';
import { createDatabase } from '/work/main/dev/databases.ts';
import { migrate } from '/work/main/migrations/migrate.ts';
import { createNamespace } from '/work/main/test/support/namespaces.ts';
import { startSystem } from '/work/main/test/support/system.ts';
import { scenarios } from '/work/main/test/histories/scenarios.ts';
import { quiet } from '/work/main/test/histories/scenario.ts';
import { listExecutions, fetchHistory } from '/work/main/scripts/histories/history.ts';
import { writeFileSync, mkdirSync } from 'node:fs';
const dir = '/tmp/perdure-try-' + process.pid;
const [pgs, tmp] = await Promise.all([startPostgres({dir: dir + '/postgres', ephemeral: true}), startTemporal({dir, cacheDir: '/work/main/.perdure', headless: true})]);
await migrate(await createDatabase(pgs.url, 'template_x'));
mkdirSync('/tmp/h', {recursive: true});
const only = process.argv.slice(2);
for (const s of scenarios) {
  if (only.length && !only.includes(s.name)) continue;
  const t = performance.now();
  const ns = await createNamespace(tmp.address);
  const databaseUrl = await createDatabase(pgs.url, 's_' + s.name.replaceAll('-', '_'), 'template_x');
  const rt = await startSystem({...ns, databaseUrl}, { agents: [faultAgent], ...s.options });
  try {
    const ses = await s.play(rt);
    await quiet(ses).catch((e) => console.log('quiet', e.message));
    await new Promise((r) => setTimeout(r, 300));
    const ex = await listExecutions(ns.client, { limit: 100, workflowId: ses.id });
    let n = 0; const info = [];
    for (const e of ex.reverse()) { const h = await fetchHistory(ns.client, e); n++; const txt = JSON.stringify(h); writeFileSync(`/tmp/h/${s.name}.${n}.json`, JSON.stringify(h, null, 1)); info.push(h.events.length + ' events ' + txt.length); }
    console.log(s.name, Math.round(performance.now() - t), info.join(', '));
  } catch (e) { for (const x of await listExecutions(ns.client, { limit: 100 })) { const h = await fetchHistory(ns.client, x); for (const ev of h.events) console.log(ev.eventId, ev.eventTime, ev.eventType, ev.eventType.includes('FAILED') ? JSON.stringify(ev) : ''); console.log('--') } for (const l of rt.logs) if (l.level >= 40) console.log(JSON.stringify(l).slice(0,600)); console.log(s.name, "FAILED", String(e.stack).slice(-900), JSON.stringify(e.details), JSON.stringify(e.statusDetails ?? e.metadata)); }
  await rt.stop(); await ns.client.connection.close();
}
await tmp.stop(); await pgs.stop(); await rm(dir, {recursive: true, force: true});
process.exit(0);
