import { expect, it } from 'vitest';
import { keptName } from './attachments.ts';

it.each([
  ['a path of an old browser', String.raw`C:\fakepath\a.png`, 'a.png'],
  ['a path', '../../etc/passwd', 'passwd'],
  ['an override of the direction', 'photo\u202Egnp.exe', 'photognp.exe'],
  ['isolates and marks', '\u2066a\u2069\u200F\u061C.txt', 'a.txt'],
  ['lines', 'a\r\nset-cookie: b\u2028.txt', 'aset-cookie: b.txt'],
  ['controls', '\0a\u001B[31m\u007F.txt', 'a[31m.txt'],
  ['only what is not seen', ' \u202E\n\u200B ', null],
  ['an emoji of several, and Hebrew', '👩‍🚀 שלום.txt', '👩‍🚀 שלום.txt'],
  ['more than is kept', `${'a'.repeat(255)}😀`, 'a'.repeat(255)],
  ['a folder', 'a/..', null],
  ['nothing', undefined, null],
])('T10 the name that is kept of %s', (_name, given, kept) => {
  expect(keptName(given)).toBe(kept);
});
