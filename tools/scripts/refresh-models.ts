// npm run refresh:models [file]: writes agent/models/model-catalog.generated.json from https://models.dev/api.json, or from a file
// with the same contents, whose date is then that of the file.
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { catalogFrom, catalogText, type Source } from './model-catalog.ts';

const SOURCE = 'https://models.dev/api.json';
const TARGET = path.join(import.meta.dirname, '..', '..', 'agent', 'models', 'model-catalog.generated.json');

/** The terms of the source (MIT), which have to accompany copies of its data. */
const LICENSE =
  'MIT License. Copyright (c) 2025 models.dev. Permission is hereby granted, free of charge, to any person obtaining a copy ' +
  'of this software and associated documentation files (the "Software"), to deal in the Software without restriction, ' +
  'including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies ' +
  'of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions: ' +
  'The above copyright notice and this permission notice shall be included in all copies or substantial portions of the ' +
  'Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO ' +
  'THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR ' +
  'COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR ' +
  'OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.';

async function read(file: string | undefined): Promise<{ source: Source; at: Date }> {
  if (file !== undefined) {
    return { source: JSON.parse(readFileSync(file, 'utf8')) as Source, at: statSync(file).mtime };
  }
  const response = await fetch(SOURCE, { signal: AbortSignal.timeout(30_000) });
  if (!response.ok) throw new Error(`${SOURCE}: status ${response.status}`);
  return { source: (await response.json()) as Source, at: new Date() };
}

const { source, at } = await read(process.argv[2]);
const about = { source: SOURCE, date: at.toISOString().slice(0, 10), license: LICENSE };
writeFileSync(TARGET, catalogText(catalogFrom(source), about));
