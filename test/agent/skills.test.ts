import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { defineAgent, type ToolDefinition } from '../../agent/definition/define.ts';
import { agentRegistry } from '../../agent/loading/agent-registry.ts';
import { memorySession } from '../../agent/memory/memory-session.ts';
import { run } from '../../agent/memory/run.ts';
import { createModels } from '../../agent/models/models.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';
import { callTool, say } from '../../tools/test-kit/model-actions.ts';
import { startModelServer } from '../../tools/test-kit/model-server.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'perdure-skills-'));
});

function write(file: string, content: string | Uint8Array): void {
  mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
  writeFileSync(path.join(folder, file), content);
}

const skill = (name: string, description = 'Does it.') => `---\nname: ${name}\ndescription: ${description}\n---\n`;
const noTools: readonly ToolDefinition[] = [];
const withSkills = (...skills: string[]) => defineAgent({ ...siteBuilder, tools: noTools, skills });

it('P1 skills are listed by name and one line, and a model reads their bodies and files with a tool', async () => {
  write('deploy/SKILL.md', `${skill('deploy', '>-\n  Puts it\n  online')}# Deploying\n\nSee scripts/go.sh.`);
  write('deploy/scripts/go.sh', 'go --now');
  write('deploy/.secret', 'not part of it');
  write('tea/SKILL.md', `${skill('tea')}Boil water.`);
  write('notes/README.md', 'no skill');
  const steps = [
    [callTool('a', 'skill', { name: 'deploy' })],
    [
      callTool('b', 'skill', { name: 'deploy', file: 'scripts/go.sh' }),
      callTool('c', 'skill', { name: 'deploy', file: '../tea/SKILL.md' }),
    ],
    [callTool('d', 'skill', { name: 'cake' })],
    [say('done')],
  ];
  await using model = {
    server: await startModelServer((_request, index) => steps[index] ?? []),
    [Symbol.asyncDispose]: () => model.server.close(),
  };
  const session = memorySession({ agent: withSkills(folder), workspaceRoot: folder });
  const resolved = createModels({ openaiBaseUrl: model.server.url }).resolve('openai/test');
  for await (const _ of run(session, 'deploy it', resolved));
  const [first] = model.server.requests;
  expect(JSON.stringify(first!.body.messages[0])).toContain(String.raw`- deploy: Puts it online\n- tea: Does it.`);
  expect(JSON.stringify(first!.body.messages)).not.toContain('Boil water');
  expect(first!.body.tools).toMatchObject([{ function: { name: 'skill' } }]);
  const parts = session.messages.at(-1)!.parts.filter(({ type }) => type === 'tool-skill');
  expect(parts).toMatchObject([
    { output: { text: '# Deploying\n\nSee scripts/go.sh.', files: ['scripts/go.sh'] } },
    { output: { text: 'go --now' } },
    { errorText: 'the skill "deploy" has no file "../tea/SKILL.md"; its files are scripts/go.sh' },
    { errorText: expect.stringContaining('"deploy"|"tea"') as string },
  ]);
});

it('P1 an agent that is defined again has its skills once, as they are then', () => {
  write('tea/SKILL.md', `${skill('tea')}Boil water.`);
  const once = withSkills(folder);
  write('cake/SKILL.md', `${skill('cake')}Bake.`);
  const [again] = agentRegistry([once]).list();
  expect(once.tools.map(({ name }) => name)).toEqual(['skill']);
  expect(again!.tools.map(({ name }) => name)).toEqual(['skill']);
  expect(again!.tools[0]!.execute!({ name: 'cake' }, {} as never)).toEqual({ text: 'Bake.' });
  expect(withSkills(path.join(folder, 'tea')).tools, 'a folder without skills').toEqual([]);
});

it.each<[what: string, name: string, content: string | Uint8Array, words: string]>([
  ['no front matter', 'tea', 'Boil water.', 'tea/SKILL.md: expected a beginning with name and description'],
  ['broken YAML', 'tea', '---\nname: [\n---\n', 'tea/SKILL.md: expected YAML'],
  ['another name', 'tea', skill('coffee'), 'tea/SKILL.md: name: expected "tea", the name of its folder'],
  ['no name', 'tea', '---\ndescription: Makes tea.\n---\n', 'tea/SKILL.md: name: expected a text'],
  ['an odd name', 'Tea', skill('Tea'), 'Tea/SKILL.md: name: expected lower-case letters'],
  ['no description', 'tea', '---\nname: tea\n---\n', 'tea/SKILL.md: description: expected a text'],
  [
    'another encoding',
    'tea',
    Buffer.from(`${skill('tea')}Grüner Tee.`, 'latin1'),
    'tea/SKILL.md: expected a text in UTF-8',
  ],
])('P1 a skill with %s is refused with the file named', (_what, name, content, words) => {
  write(`${name}/SKILL.md`, content);
  expect(() => withSkills(folder)).toThrow(words);
});

it('P1 a skill may be a link to its folder', () => {
  write('elsewhere/tea/SKILL.md', `${skill('tea')}Boil water.`);
  write('elsewhere/tea/more.md', 'Wait.');
  write('skills/README.md', 'no skill');
  symlinkSync('../elsewhere/tea', path.join(folder, 'skills', 'tea'));
  symlinkSync('../elsewhere/none', path.join(folder, 'skills', 'none'));
  const [tool] = withSkills(path.join(folder, 'skills')).tools;
  expect(tool!.execute!({ name: 'tea' }, {} as never)).toEqual({ text: 'Boil water.', files: ['more.md'] });
});

it('P1 a skill’s file that is not UTF-8 is refused when the model reads it', () => {
  write('tea/SKILL.md', `\uFEFF${skill('tea')}Grüner Tee.`);
  write('tea/more.md', Buffer.from('Grüner Tee.', 'latin1'));
  const [tool] = withSkills(folder).tools;
  expect(tool!.execute!({ name: 'tea' }, {} as never)).toEqual({ text: 'Grüner Tee.', files: ['more.md'] });
  expect(() => tool!.execute!({ name: 'tea', file: 'more.md' }, {} as never)).toThrow('"more.md" is not a text');
});

it('P1 folders of skills are absolute paths that exist, with each name once, beside no tool `skill` of the agent', () => {
  write('tea/SKILL.md', skill('tea'));
  expect(() => withSkills('skills')).toThrow('agent "site-builder": skills: "skills": expected an absolute path');
  expect(() => withSkills(path.join(folder, 'none'))).toThrow('expected a folder with skills that can be read');
  expect(() => withSkills(folder, folder)).toThrow('skills: the name "tea" is used twice');
  const [tool] = withSkills(folder).tools;
  const agent = { ...siteBuilder, tools: [{ ...tool!, name: 'skill' }], skills: [folder] };
  expect(() => defineAgent(agent)).toThrow('the name "skill" is used twice');
});

it('Q3 links in a skill’s folder are not followed', () => {
  write('tea/SKILL.md', skill('tea'));
  write('secret', 'secret of the host');
  symlinkSync(path.join(folder, 'secret'), path.join(folder, 'tea', 'more.md'));
  const [tool] = withSkills(folder).tools;
  expect(() => tool!.execute!({ name: 'tea', file: 'more.md' }, {} as never)).toThrow('it has no other files');
});
