import { parsedJson } from '../../domain/parsed-json.ts';
import { isRecord } from '../lib/record.ts';

/** A table's cell. */
export type Cell = string | number | boolean | null;

/** How an output of a tool is best shown. */
export type ReadOutput =
  | { kind: 'nothing' }
  | { kind: 'text'; text: string }
  | { kind: 'diff'; lines: string[] }
  | { kind: 'file'; mediaType: string; url: string; filename?: string }
  | { kind: 'table'; columns: string[]; rows: Record<string, Cell>[] }
  | { kind: 'parts'; parts: ReadOutput[] }
  | { kind: 'tree'; value: object };

/** Longer texts are not searched for JSON. */
const MOST_JSON = 500_000;
const MOST_COLUMNS = 10;
const IMAGE = /^data:(image\/[\w.+-]+)[;,]/;
const DIFF = /^(?:diff --git |--- \S.*\n\+\+\+ |@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@)/m;

/** Reads the output of a tool by its shape. */
export function readOutput(output: unknown): ReadOutput {
  if (output === undefined || output === null || output === '') return { kind: 'nothing' };
  if (typeof output === 'string') return readText(output);
  if (typeof output !== 'object') return { kind: 'text', text: JSON.stringify(output) };
  return partsIn(output) ?? fileIn(output) ?? tableIn(output) ?? { kind: 'tree', value: output };
}

function readText(text: string): ReadOutput {
  const [, mediaType] = IMAGE.exec(text) ?? [];
  if (mediaType !== undefined) return { kind: 'file', mediaType, url: text };
  if (DIFF.test(text)) return { kind: 'diff', lines: text.trimEnd().split('\n') };
  const value = text.length <= MOST_JSON && /^\s*[[{]/.test(text) ? parsedJson(text) : undefined;
  return typeof value === 'object' && value !== null ? readOutput(value) : { kind: 'text', text };
}

/** Texts and files, as tools of MCP servers return them. */
function partsIn(output: object): ReadOutput | undefined {
  const { content, structured } = output as { content?: unknown; structured?: unknown };
  if (!Array.isArray(content) || content.length === 0) return undefined;
  if (!content.every((part) => isRecord(part) && typeof part['type'] === 'string')) return undefined;
  const parts = content.map((part: Record<string, unknown>) => {
    return part['type'] === 'text' ? readOutput(part['text']) : readOutput(part);
  });
  return { kind: 'parts', parts: structured === undefined ? parts : [...parts, readOutput(structured)] };
}

/** A file that is kept with the session, or an image in the output itself; others would be loaded from elsewhere. */
function fileIn(output: object): ReadOutput | undefined {
  const { type, mediaType, url, filename } = output as Record<string, unknown>;
  if (type !== 'file' || typeof mediaType !== 'string' || typeof url !== 'string') return undefined;
  if (!url.startsWith('perdure:') && !IMAGE.test(url)) return undefined;
  return { kind: 'file', mediaType, url, ...(typeof filename === 'string' && { filename }) };
}

/** Two or more records with the same few fields, none of which has an inside. */
function tableIn(output: object): ReadOutput | undefined {
  if (!Array.isArray(output) || output.length < 2 || !output.every(isRow)) return undefined;
  const columns = [...new Set(output.flatMap((row) => Object.keys(row)))];
  const isEven = output.every((row) => Object.keys(row).length * 2 >= columns.length);
  if (columns.length === 0 || columns.length > MOST_COLUMNS || !isEven) return undefined;
  return { kind: 'table', columns, rows: output };
}

function isRow(value: unknown): value is Record<string, Cell> {
  return isRecord(value) && Object.values(value).every((cell) => cell === null || typeof cell !== 'object');
}
