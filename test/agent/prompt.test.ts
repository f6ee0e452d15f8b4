import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
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
});

const agent = { ...siteBuilder, prompt: 'Build sites.' };
const assemble = (more: Partial<PromptInput> = {}) =>
  assemblePrompt({ agent, workspaceRoot, boundary, date: '2026-03-01', model: 'openai/test', ...more });

function write(file: string, content: string | Uint8Array): void {
  writeFileSync(path.join(boundary, file), content);
}

function git(...args: string[]): void {
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.org', '-c', 'init.defaultBranch=trunk'];
  execFileSync('git', [...identity, ...args], { cwd: workspaceRoot, stdio: 'ignore' });
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

  it('T5 instruction files are sanitized and truncated', async () => {
    write('AGENTS.md', `a\0b ${'x'.repeat(100_000)}`);
    const { system } = await assemble();
    expect(system).toContain('a\uFFFDb');
    expect(system).toContain('the rest is left out');
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

  it('P1 starts no process without a repository', async () => {
    write('AGENTS.md', 'be brief');
    let processes = 0;
    const started = () => void processes++;
    subscribe('child_process', started);
    onTestFinished(() => void unsubscribe('child_process', started));
    await assemble();
    expect(processes).toBe(0);
    git('init');
    git('commit', '--allow-empty', '-m', 'a');
    processes = 0;
    await assemble();
    expect(processes, 'git, in a repository').toBeGreaterThan(0);
  });
});

describe('the git state', () => {
  const stateOf = async () => /- Git: (.*)/.exec((await assemble()).system)?.[1];

  it('P1 contains the branch, and clean or dirty', async () => {
    git('init');
    expect(await stateOf()).toBe('branch trunk, no commit yet');
    write('team/site/a.txt', 'a');
    git('add', '.');
    git('commit', '-m', 'a');
    expect(await stateOf()).toBe('branch trunk, clean');
    write('team/site/a.txt', 'b');
    expect(await stateOf()).toBe('branch trunk, dirty');
    git('commit', '-am', 'b');
    expect(await stateOf()).toBe('branch trunk, clean');
    write('team/site/new.txt', 'new');
    expect(await stateOf()).toBe('branch trunk, dirty');
    git('checkout', '--detach');
    expect(await stateOf()).toBe('no branch, dirty');
  });

  it('P1 finds packed branches', async () => {
    git('init');
    git('commit', '--allow-empty', '-m', 'a');
    git('pack-refs', '--all');
    expect(await stateOf()).toBe('branch trunk, clean');
  });

  it('Q3 runs no program that the repository’s configuration names', async () => {
    git('init');
    write('team/site/.gitattributes', '* filter=evil');
    write('team/site/a.txt', 'a');
    git('add', '.');
    git('commit', '-m', 'a');
    const proof = path.join(boundary, 'proof');
    git('config', 'core.fsmonitor', `touch ${proof}`);
    git('config', 'filter.evil.clean', `touch ${proof}; cat`);
    write('team/site/a.txt', 'b');
    expect(await stateOf()).toBe('branch trunk, dirty');
    expect(() => realpathSync(proof)).toThrow('ENOENT');
  });

  it('P1 says so if a repository cannot be read', async () => {
    mkdirSync(path.join(workspaceRoot, '.git'));
    expect(await stateOf()).toBe('unreadable');
    write('team/site/.git/HEAD', 'ref: refs/heads/../../../../secret');
    expect(await stateOf()).toBe('unreadable');
  });

  describe('once git was asked', () => {
    let processes = 0;
    const started = () => void processes++;
    beforeEach(() => {
      subscribe('child_process', started);
      onTestFinished(() => void unsubscribe('child_process', started));
    });
    /** As if all files were old. */
    const later = () => {
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 60_000 });
      onTestFinished(() => void vi.useRealTimers());
    };
    /** How often git was asked by a turn. */
    const asked = async () => {
      processes = 0;
      await stateOf();
      return processes;
    };
    const repository = (files: readonly string[]) => {
      git('init');
      for (const file of files) {
        mkdirSync(path.dirname(path.join(workspaceRoot, file)), { recursive: true });
        write(`team/site/${file}`, file);
      }
      git('add', '.');
      git('commit', '-m', 'a');
    };

    it('P1 it is asked again only if something in the repository has changed, whatever that is', async () => {
      repository(['a.txt', 'src/b.txt', 'c.txt']);
      later();
      const at = (file: string) => path.join(workspaceRoot, file);
      const changes: readonly [what: string, state: string, change: () => void][] = [
        ['a longer file', 'dirty', () => write('team/site/a.txt', 'longer than before')],
        ['the former text', 'clean', () => write('team/site/a.txt', 'a.txt')],
        ['a new file', 'dirty', () => write('team/site/src/new.txt', 'new')],
        ['it is ignored', 'dirty', () => write('team/site/.gitignore', 'new.txt')],
        ['that is committed', 'clean', () => (git('add', '.'), git('commit', '-m', 'b'))],
        ['a folder', 'clean', () => mkdirSync(at('src/empty'))],
        ['a file in it', 'dirty', () => write('team/site/src/empty/e.txt', 'e')],
        ['it is staged', 'dirty', () => git('add', '.')],
        ['and deleted', 'dirty', () => rmSync(at('src/empty'), { recursive: true })],
        ['and not staged any more', 'clean', () => git('add', '.')],
        ['another mode', 'dirty', () => chmodSync(at('a.txt'), 0o755)],
        ['and the former', 'clean', () => chmodSync(at('a.txt'), 0o644)],
        ['a missing file', 'dirty', () => rmSync(at('src/b.txt'))],
        ['that is there again', 'clean', () => git('checkout', '.')],
        ['a renamed file', 'dirty', () => renameSync(at('c.txt'), at('d.txt'))],
        ['another file instead', 'dirty', () => renameSync(at('d.txt'), at('e.txt'))],
        ['it is back', 'clean', () => renameSync(at('e.txt'), at('c.txt'))],
        ['a link instead', 'dirty', () => (rmSync(at('c.txt')), symlinkSync('a.txt', at('c.txt')))],
        ['another commit', 'dirty', () => git('commit', '--allow-empty', '-m', 'c')],
        ['all of the former one', 'clean', () => git('reset', '--hard', 'HEAD~1')],
        ['another index', 'dirty', () => git('rm', '--cached', 'a.txt')],
        ['the branch only', 'dirty', () => git('symbolic-ref', 'HEAD', 'refs/heads/trunk')],
      ];
      for (const [what, state, change] of changes) {
        change();
        expect(await stateOf(), what).toBe(`branch trunk, ${state}`);
        expect(await asked(), `${what}: asked once`).toBe(0);
        expect(await stateOf(), what).toBe(`branch trunk, ${state}`);
      }
    });

    it('P1 it is asked each time while files are so new that a change might not be seen', async () => {
      repository(['a.txt']);
      expect([await asked(), await asked()]).toEqual([1, 1]);
      later();
      expect([await asked(), await asked()]).toEqual([1, 0]);
      write('team/site/a.txt', 'dirty');
      vi.useRealTimers();
      expect([await asked(), await asked()]).toEqual([1, 1]);
    });

    it('P1 of a large repository one change is enough, and that it is clean is asked each time', async () => {
      repository(Array.from({ length: 600 }, (_, n) => `${n % 7}/${n}.txt`));
      later();
      expect([await asked(), await asked()]).toEqual([1, 1]);
      write('team/site/3/3.txt', 'changed');
      expect([await asked(), await asked()]).toEqual([1, 0]);
      expect(await stateOf()).toBe('branch trunk, dirty');
      git('checkout', '.');
      expect(await stateOf()).toBe('branch trunk, clean');
    });
  });
});
