import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cases } from '../tools/test-kit/cases.ts';
import { growthOf, MOST_LINEAR } from '../tools/test-kit/growth.ts';
import {
  decide,
  decideTogether,
  isStricter,
  matches,
  patternFault,
  type PermissionRule,
  RULE_ACTIONS,
  RULE_SCOPES,
  type SessionRules,
  specificity,
} from './permissions.ts';

/** Few characters, so that texts and patterns meet. */
const text = fc.string({ unit: fc.constantFrom('a', 'b', '/', '*', '\\', '\n', '😀'), maxLength: 8 });
const literalPattern = (given: string) => given.replaceAll(/[*\\]/g, '\\$&');
const pattern = fc
  .array(fc.oneof(text.map(literalPattern), fc.constant('*')), { maxLength: 4 })
  .map((pieces) => pieces.join(''));
function withPin(made: PermissionRule): PermissionRule {
  return { ...made, pinned: made.pinned === true && made.source === 'manifest' };
}

const rule: fc.Arbitrary<PermissionRule> = fc
  .record({
    rule_id: fc.uuid(),
    permission: fc.constantFrom('pay', 'look'),
    pattern,
    action: fc.constantFrom(...RULE_ACTIONS),
    source: fc.constantFrom(...RULE_SCOPES),
    pinned: fc.boolean(),
  })
  .map(withPin);
const request = fc.record({ permission: fc.constantFrom('pay', 'look'), pattern: text });

/** The language of patterns as a regular expression. */
function asRegExp(given: string): RegExp {
  const source = given.replaceAll(/\\([*\\])|([^*\\])|\*/gu, (_all, escaped?: string, plain?: string) =>
    escaped === undefined && plain === undefined ? '[^]*' : (escaped ?? plain)!.replaceAll(/[\\*/]/g, '\\$&'),
  );
  return new RegExp(`^${source}$`, 'u');
}

it('P3 a pattern matches what the same regular expression matches', () => {
  fc.assert(
    fc.property(pattern, text, (given, asked) => {
      expect(matches(given, asked)).toBe(asRegExp(given).test(asked));
    }),
    cases(),
  );
});

it('P3 the literal pattern of a text is valid and matches that text only; no pattern of its length is more specific', () => {
  fc.assert(
    fc.property(text, text, (one, other) => {
      const literal = literalPattern(one);
      expect(patternFault(literal)).toBeUndefined();
      expect(matches(literal, one)).toBe(true);
      expect(matches(literal, other)).toBe(one === other);
      expect(specificity(literal)).toBe(Array.from(one).length);
    }),
    cases(),
  );
});

it('P3 a long pattern with many wildcards is decided at once', () => {
  expect(matches('a*'.repeat(500), `${'a'.repeat(1_000)}b`)).toBe(true);
  expect(matches(`${'a*'.repeat(500)}c`, 'a'.repeat(1_000))).toBe(false);
});

it('P3 patterns that differ from a text at its beginning are compared at once, however long the text is', async () => {
  const patterns = Array.from({ length: 2_000 }, (_, n) => `${n}`);
  const work = (size: number) => {
    const asked = 'x'.repeat(size);
    expect(patterns.filter((each) => matches(each, asked))).toEqual([]);
  };
  expect(await growthOf(work, 10_000)).toBeLessThan(4);
});

it('P3 a long pattern that almost matches everywhere in a long text is decided at once', async () => {
  const work = (size: number) => {
    const [given, asked] = [`*${'a'.repeat(size / 2)}b`, 'a'.repeat(size)];
    for (let n = 0; n < 50; n += 1)
      expect([matches(given, asked), matches(`${given}*`, asked)]).toEqual([false, false]);
  };
  expect(await growthOf(work, 1_000)).toBeLessThan(MOST_LINEAR);
});

/** The rules that match, the deciding one first. */
function ranked(rules: readonly PermissionRule[], asked: { permission: string; pattern: string }): PermissionRule[] {
  return rules
    .map((each, place) => ({ each, place }))
    .filter(({ each }) => each.permission === asked.permission && asRegExp(each.pattern).test(asked.pattern))
    .toSorted(
      (a, b) =>
        Number(b.each.pinned) - Number(a.each.pinned) ||
        specificity(b.each.pattern) - specificity(a.each.pattern) ||
        RULE_SCOPES.indexOf(b.each.source) - RULE_SCOPES.indexOf(a.each.source) ||
        b.place - a.place,
    )
    .map(({ each }) => each);
}

it('P3 the most specific rule decides, then the narrower scope, then the later; a pinned one before all; none allows', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 12 }), request, (rules, asked) => {
      const [first] = ranked(rules, asked);
      expect(decide(rules, asked)).toEqual({ action: first?.action ?? 'allow', rule: first ?? null });
    }),
    cases(),
  );
});

it('P3 rules that do not match, and the order of scopes in the list, change nothing', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 8 }), rule, request, (rules, other, asked) => {
      const decided = decide(rules, asked);
      if (!matches(other.pattern, asked.pattern) || other.permission !== asked.permission) {
        expect(decide([other, ...rules], asked)).toEqual(decided);
        expect(decide([...rules, other], asked)).toEqual(decided);
      }
      const byScope = RULE_SCOPES.flatMap((scope) => rules.filter(({ source }) => source === scope));
      expect(decide(byScope, asked)).toEqual(decided);
    }),
    cases(),
  );
});

const chain = fc
  .array(fc.option(fc.array(rule, { maxLength: 6 }), { freq: 8 }), { minLength: 1, maxLength: 6 })
  .map((each) => each.map((rules, depth): SessionRules => ({ session_id: `ses_${depth}`, rules })));

it('P4 what a child decides is never more permissive than the decision of any session above, nor than its own', () => {
  fc.assert(
    fc.property(chain, request, (sessions, asked) => {
      const [own, ...above] = sessions as [SessionRules, ...SessionRules[]];
      const decided = decideTogether([own, ...above], asked);
      const alone = sessions.map(({ rules }) =>
        rules === null ? { action: 'deny', rule: null } : decide(rules, asked),
      );
      for (const { action } of alone) expect(isStricter(action as 'deny', decided.action)).toBe(false);
      // It is the decision of one of them: the nearest.
      const nearest = alone.findIndex(({ action }) => action === decided.action);
      expect(decided).toMatchObject({ ...alone[nearest], session_id: sessions[nearest]!.session_id });
      // Another session above changes nothing but to forbid more.
      const nested = decideTogether([own], asked);
      expect(isStricter(nested.action, decided.action)).toBe(false);
    }),
    cases(),
  );
});

it('P4 a call that asks names each session whose rules ask; any other call names none', () => {
  fc.assert(
    fc.property(chain, request, (sessions, asked) => {
      const { action, asking } = decideTogether(sessions as [SessionRules, ...SessionRules[]], asked);
      const asks = sessions.flatMap(({ session_id, rules }) => {
        const alone = decide(rules ?? [], asked);
        return alone.action === 'ask' ? [{ session_id, rule: alone.rule }] : [];
      });
      expect(asking).toEqual(action === 'ask' ? asks : []);
    }),
    cases(),
  );
});

it('P3 a session with none above decides as its rules do', () => {
  fc.assert(
    fc.property(fc.array(rule, { maxLength: 8 }), request, (rules, asked) => {
      expect(decideTogether([{ session_id: 'ses_0', rules }], asked)).toMatchObject(decide(rules, asked));
    }),
    cases(),
  );
});

it.each([
  ['trailing\\', 'a backslash'],
  ['\\a', 'a backslash'],
  ['nul\0', 'characters'],
  ['half \ud800', 'characters'],
  ['x'.repeat(1_025), '1024 characters'],
])('P3 the pattern %j is refused', (given, why) => {
  expect(patternFault(given)).toContain(why);
});
