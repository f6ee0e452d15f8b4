import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { assemblePrompt, type PromptInput } from '../../agent/prompt/assemble-prompt.ts';
import siteBuilder from '../../examples/site-builder/agent.ts';

let boundary: string;
let workspaceRoot: string;

beforeEach(() => {
  boundary = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'perdure-prompt-')));
  workspaceRoot = path.join(boundary, 'team', 'site');
  mkdirSync(workspaceRoot, { recursive: true });
  const made = boundary;
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
});

const agent = { ...siteBuilder, prompt: 'Build sites.' };
const assemble = (more: Partial<PromptInput> = {}) =>
  assemblePrompt({ agent, workspaceRoot, boundary, date: '2026-03-01', model: 'openai/test', ...more });

function write(file: string, content: string | Uint8Array): void {
  writeFileSync(path.join(boundary, file), content);
}

describe('the prompt', () => {
  it('P1 has its sections in a fixed order, with instructions from the outermost folder inward', async () => {
    write('AGENTS.md', 'outermost');
    write('team/CONTEXT.md', 'context of the team');
    write('team/AGENTS.md', 'agents of the team');
    write('team/site/CLAUDE.md', 'nearest');
    const skills = path.join(boundary, 'skills');
    mkdirSync(path.join(skills, 'deploy'), { recursive: true });
    writeFileSync(
      path.join(skills, 'deploy', 'SKILL.md'),
      '---\nname: deploy\ndescription: Puts it online.\n---\nRun it.',
    );
    const { system, toolCatalog, body } = await assemble({
      agent: { ...defineAgent({ ...agent, skills: [skills] }), prompt: agent.prompt },
      variant: 'high',
    });
    const expected = [
      agent.prompt,
      '# Project instructions\n\n## ../../AGENTS.md\n\noutermost',
      '## ../AGENTS.md\n\nagents of the team',
      '## ../CONTEXT.md\n\ncontext of the team',
      '## CLAUDE.md\n\nnearest',
      '# Skills\n\nRead a skill with the tool `skill` before you do what it describes.\n\n- deploy: Puts it online.',
      `# Environment\n\n- Platform: ${process.platform}\n- Workspace: /workspace\n- Date: 2026-03-01\n- Model: openai/test (high)\n- Git: not a repository`,
    ].join('\n\n');
    expect(system).toBe(expected);
    expect(body).toBe(`${expected}\n\n# Tools\n\n${toolCatalog}\n`);
    expect(JSON.parse(toolCatalog)[0]).toMatchObject({ name: 'build_and_deploy', input_schema: { type: 'object' } });
  });

  it('P1 the tool catalog is canonical JSON, and the bytes of all five sections and their digest never change by themselves', async () => {
    const find = defineTool({
      name: 'find_pages',
      description: 'Finds “pages” by name.',
      input: z.object({
        words: z.array(z.string().min(1)).max(5).describe('all of them'),
        kind: z.enum(['page', 'post']).optional(),
        limit: z.int().positive().default(20),
        at: z.union([z.string(), z.null()]).optional(),
      }),
      execute: () => [],
    });
    const platform = vi.spyOn(process, 'platform', 'get').mockReturnValue('linux');
    onTestFinished(() => platform.mockRestore());
    write('team/AGENTS.md', 'agents of the team');
    const { sections, toolCatalog, digest } = await assemble({ agent: { ...agent, tools: [find] } });
    expect(sections[4]).toBe(toolCatalog);
    expect(toolCatalog).toMatchInlineSnapshot(
      `"[{"description":"Finds “pages” by name.","input_schema":{"properties":{"at":{"type":["string","null"]},"kind":{"enum":["page","post"],"type":"string"},"limit":{"default":20,"exclusiveMinimum":0,"maximum":9007199254740991,"type":"integer"},"words":{"description":"all of them","items":{"minLength":1,"type":"string"},"maxItems":5,"type":"array"}},"required":["words"],"type":"object"},"name":"find_pages"}]"`,
    );
    expect(digest).toMatchInlineSnapshot(`"73cbbd5a6c7e0d81c07c041aa335c655879b2897177873b34d4ee922558d1cf3"`);
  });

  it('P1 the same inputs give the same bytes, and the digest is their SHA-256', async () => {
    write('AGENTS.md', 'be brief');
    const [one, two] = [await assemble(), await assemble()];
    expect(two).toEqual(one);
    expect(one.digest).toBe(createHash('sha256').update(one.body).digest('hex'));
    const others = [
      await assemble({ date: '2026-03-02' }),
      await assemble({ model: 'openai/other' }),
      await assemble({ agent: { ...siteBuilder, prompt: 'Other.' } }),
      await assemble({ agent: { ...agent, tools: agent.tools.slice(1) } }),
      await assemble({ variant: 'high' }),
    ];
    write('AGENTS.md', 'be verbose');
    others.push(await assemble());
    expect(new Set([one, ...others].map(({ digest }) => digest)).size).toBe(7);
  });

  it('P1 the prompts of two workspaces with the same files have the same bytes, and no path of the server', async () => {
    write('AGENTS.md', 'outermost');
    const bodies: string[] = [];
    for (const name of ['one', 'other']) {
      const folder = path.join(boundary, 'team', name);
      mkdirSync(folder);
      writeFileSync(path.join(folder, 'AGENTS.md'), 'nearest');
      bodies.push((await assemble({ workspaceRoot: folder })).body);
    }
    expect(bodies[0]).toBe(bodies[1]);
    expect(bodies[0]).not.toContain(boundary);
  });

  it('P1 an agent with `instructions: false` gets no instruction files', async () => {
    write('team/AGENTS.md', 'agents of the team');
    const { system } = await assemble({ agent: { ...agent, instructions: false } });
    expect(system).not.toContain('agents of the team');
  });

  it('P1 files that tools wrote are left out, and so is a link to them, but not the file under another name', async () => {
    write('team/AGENTS.md', 'written by a tool');
    write('team/site/CLAUDE.md', 'nearest');
    symlinkSync('CLAUDE.md', path.join(workspaceRoot, 'AGENTS.md'));
    const asked: object[] = [];
    const { system } = await assemble({
      writtenByTools: async (found) => {
        asked.push(found);
        return new Set(['team/AGENTS.md', 'team/site/AGENTS.md']);
      },
    });
    expect(system).toContain('## CLAUDE.md\n\nnearest');
    expect(system).not.toContain('written by a tool');
    expect(Object.keys(asked[0]!)).toEqual(['team/AGENTS.md', 'team/site/AGENTS.md', 'team/site/CLAUDE.md']);
  });

  it('P1 reads nothing above the boundary', async () => {
    write('AGENTS.md', 'secret of the host');
    const { system } = await assemble({ boundary: path.join(boundary, 'team') });
    expect(system).not.toContain('secret of the host');
    expect((await assemble({ boundary: path.join(boundary, 'elsewhere') })).system).not.toContain('secret');
  });

  it('Q3 a link that leads out of the boundary is ignored; a file with two names is read once', async () => {
    const outside = mkdtempSync(path.join(os.tmpdir(), 'perdure-outside-'));
    writeFileSync(path.join(outside, 'secret'), 'secret of the host');
    symlinkSync(path.join(outside, 'secret'), path.join(workspaceRoot, 'AGENTS.md'));
    write('team/AGENTS.md', 'said once');
    symlinkSync('AGENTS.md', path.join(boundary, 'team', 'CLAUDE.md'));
    const { system } = await assemble();
    expect(system).not.toContain('secret of the host');
    expect(system.match(/said once/g)).toHaveLength(1);
  });

  it('T5 P1 instruction files are sanitized, and of 10 MB only the first 64 KiB are read', async () => {
    write('AGENTS.md', Buffer.concat([Buffer.from(`a\0b ${'x'.repeat(10_000_000)}`), Buffer.of(0xff)]));
    const { system } = await assemble();
    expect(system).toContain('a\uFFFDb');
    expect(system).toContain('[The file is 10000005 bytes long; the rest is left out.]');
    expect(system.length).toBeLessThan(70_000);
  });

  it('P1 an instruction file that is not UTF-8 is left out with a note, but not one that is cut within a character', async () => {
    write('AGENTS.md', Buffer.from('grüße', 'latin1'));
    write('team/AGENTS.md', 'é'.repeat(40_000));
    write('team/site/AGENTS.md', '\uFEFFnearest');
    const { system } = await assemble();
    expect(system).toContain('## ../../AGENTS.md\n\n[The file is left out: it is not UTF-8.]\n\n## ../AGENTS.md\n\néé');
    expect(system).toContain('é\n[The file is 80000 bytes long; the rest is left out.]\n\n## AGENTS.md\n\nnearest');
    expect(system).not.toContain('\uFFFD');
  });
});
