import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../tools/test-kit/cases.ts';
import { growthOf, MOST_LINEAR } from '../tools/test-kit/growth.ts';
import { changeStrings } from './change-strings.ts';

const hide = (text: string) => text.replaceAll('123456', '[redacted]').replaceAll('na"b', '[redacted]');

it('Q3 redaction changes strings and keys, never numbers', () => {
  const value = { bytes: 123456789, path: '/x/123456/y', 'at 123456': [1, '123456', null, -123456e7] };
  expect(JSON.parse(changeStrings(JSON.stringify(value), hide))).toEqual({
    bytes: 123456789,
    path: '/x/[redacted]/y',
    'at [redacted]': [1, '[redacted]', null, -123456e7],
  });
});

it('Q3 redaction gives valid JSON of the same shape for any value and any secret', () => {
  const secret = fc.oneof(fc.string({ minLength: 1, maxLength: 3 }), fc.constantFrom('n', '\\', '"', 'u00', ':', ','));
  fc.assert(
    fc.property(fc.jsonValue(), secret, (value, word) => {
      const forms = [word, JSON.stringify(word).slice(1, -1)];
      const redact = (text: string) => forms.reduce((clean, form) => clean.replaceAll(form, '#'), text);
      const json = JSON.stringify(value);
      const redacted = changeStrings(json, redact);
      const shape = (of: string) => of.replaceAll(/"[^"\\]*(?:\\.[^"\\]*)*"/g, '""');
      expect(() => JSON.parse(redacted) as unknown).not.toThrow();
      expect(shape(redacted)).toBe(shape(json));
    }),
    cases(),
  );
});

it('Q3 the time to redact a string is linear in its length', async () => {
  const redact = (size: number) => {
    const json = JSON.stringify({ long: 'a"b\n'.repeat(size), short: '123456' });
    expect(changeStrings(json, hide)).toBe(json.replace('123456', '[redacted]'));
  };
  expect(await growthOf(redact, 300_000)).toBeLessThan(MOST_LINEAR);
});
