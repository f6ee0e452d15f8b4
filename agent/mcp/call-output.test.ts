import { expect, it } from 'vitest';
import { callOutput, type ResultFile } from './call-output.ts';

const picture = { type: 'image' as const, data: 'AAAA', mimeType: 'image/png' };

it('H15 T10 the store of attachments is not asked for each file of a result while it is away', async () => {
  const asked: ResultFile[] = [];
  const output = await callOutput({ content: [picture, picture, picture] }, (file) => {
    asked.push(file);
    return Promise.resolve({ problem: 'it could not be stored', isAway: true });
  });
  expect(asked).toHaveLength(1);
  const note = 'not kept: it could not be stored';
  expect(output).toMatchObject({ content: [{ note }, { note }, { note }] });
});
