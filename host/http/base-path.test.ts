import { describe, expect, it } from 'vitest';
import { normalBasePath, pathBelow } from './base-path.ts';

describe('a base path', () => {
  it.each([
    [undefined, ''],
    ['', ''],
    ['/', ''],
    ['/perdure', '/perdure'],
    ['perdure', '/perdure'],
    ['/perdure/', '/perdure'],
    ['//a//b.c//', '/a/b.c'],
  ])('H5 %j is normalised', (given, expected) => {
    expect(normalBasePath(given)).toBe(expected);
  });

  it.each(['/a b', '/:id', '/a/*', '/a?b', '/a/../b', 'https://example.com/a', '/%61', 7])(
    'H5 %j is refused by name',
    (given) => {
      expect(() => normalBasePath(given)).toThrow('basePath: expected a path such as /perdure');
    },
  );

  const served = (segment: string) => ['api', 'docs', 'healthz'].includes(segment);
  it.each([
    ['/perdure', '/perdure/api/chat?x=/perdure', '/api/chat'],
    ['/perdure', '/api/chat', '/api/chat'],
    ['/perdure', '/perdured/api', '/perdured/api'],
    ['/perdure', '/perdure', '/'],
    ['/perdure', '/perdure/', '/'],
    ['/perdure', '/perdure/unknown', '/unknown'],
    ['/perdure', '/perdure/api/%61', '/api/a'],
    ['/api', '/api/api/chat', '/api/chat'],
    ['/api', '/api/chat', '/api/chat'],
    ['/api', '/api/docs', '/docs'],
    ['/docs', '/docs', '/docs'],
    ['', '/perdure/api', '/perdure/api'],
  ])('H5 below %j, %s is %s', (basePath, path, expected) => {
    expect(pathBelow(basePath, served)(new Request(`http://localhost${path}`))).toBe(expected);
  });
});
