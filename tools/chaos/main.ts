// `npm run chaos`: a campaign of faults under load, then a check of every promise. See docs/chaos.md.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseConfig } from '../../config/config.ts';
import { campaign } from './campaign.ts';
import { argumentsOf, parseOptions } from './options.ts';
import { printed } from './print.ts';

const options = parseOptions(process.argv.slice(2));
const { dir } = parseConfig({ PERDURE_DIR: process.env['PERDURE_DIR'] });
const keep = path.join(dir, 'chaos', `${new Date().toISOString().replaceAll(':', '-')}-${options.seed}`);
const report = await campaign(options, keep, (line) => console.error(line));
await writeFile(path.join(keep, 'report.json'), `${JSON.stringify(report, undefined, 2)}\n`);
console.log(printed(report));
console.log(`kept in ${keep}`);
console.log(`repeat with npm run chaos -- ${argumentsOf(options)}`);
process.exit(report.violations.length > 0 ? 1 : 0);
