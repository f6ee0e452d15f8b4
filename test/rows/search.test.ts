// The full-text index and what it finds.
import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { eraseSession } from '../../store/erasure.ts';
import { applySearchLanguage, indexMessages, searchMessages } from '../../store/search.ts';
import { patientPool } from '../../tools/test-kit/patient-pool.ts';
import { conversation, told } from './conversation.ts';
import { freshRows, rows, Session, textPart, untilBlocked } from './session.ts';

const db = await freshRows();

const search = (query: string, user = 'ada', limit = 20) => searchMessages(db, user, query, limit);
const idsOf = async (query: string, user?: string) => (await search(query, user)).map((hit) => hit.message_id);

/** Says a text under an id and answers it with another one. */
async function said(session: Session, id: string, text: string, answer: string): Promise<string> {
  const { run_seq: run } = (await session.say(text, { id })) as { run_seq: number };
  const { answer_id: answerId } = (await session.claim(run, [0, run, 1])) as { answer_id: string };
  await session.settleStep(run, [0, run, 1], { parts: [{ ...textPart(0, answer), settled: true }], end: true });
  return answerId;
}

/** Indexes everything, and returns what each batch of `limit` has done. */
async function batchesOf(database: pg.Pool, limit: number): Promise<number[]> {
  const sizes: number[] = [];
  for (let size = await indexMessages(database, limit); size > 0; size = await indexMessages(database, limit)) {
    sizes.push(size);
  }
  return sizes;
}

describe('search', () => {
  it('T6 finds questions and answers, the best match first, with the matching words', async () => {
    const session = await Session.at('chatting', db);
    const rhubarb = await said(session, 'cake', 'How do I bake a cake?', 'With rhubarb: "Rhubarb" <b>is</b> sour.');
    const pie = await said(session, 'pie', 'And a pie with many other things, and rhubarb?', 'The same, but round.');
    const hits = await search('RHUBARB');
    expect(hits.map((hit) => hit.message_id)).toEqual([rhubarb, 'pie']);
    const [best] = hits;
    expect(best).toMatchObject({ session_id: session.id, role: 'assistant', hidden: false });
    expect(best!.matches.map(({ start, end }) => best!.snippet.slice(start, end))).toEqual(['rhubarb', 'Rhubarb']);
    expect(best!.snippet).toContain('With rhubarb');
    const stored = await rows(db, 'SELECT created_at FROM chat_messages WHERE session_id = $1 AND id = $2', [
      session.id,
      rhubarb,
    ]);
    expect(best!.created_at).toBe((stored[0]!['created_at'] as Date).toISOString());
    expect(await idsOf('"but round"')).toEqual([pie]);
    expect(await idsOf('rhubarb -sour')).toEqual(['pie']);
    expect((await idsOf('bake or round')).toSorted()).toEqual(['cake', pie].toSorted());
    expect(await idsOf('rhubarb round')).toEqual([]);
    expect(await search('rhubarb', 'ada', 1)).toEqual([best]);
    // Of two texts with the same word the short one is more about it.
    await said(session, 'brief', 'a quagga', 'yes');
    await said(session, 'verbose', `a quagga, a quagga, ${'and so on '.repeat(300)}`, 'yes');
    expect(await idsOf('quagga')).toEqual(['brief', 'verbose']);
  });

  it('T6 finds what a rewind, an edit or a cancel has hidden, and marks it', async () => {
    const session = await conversation(db, 'walrus', 'seal');
    await session.rewind('seal');
    await told(session, 'otter');
    await session.say('dolphin', { id: 'dolphin' });
    await session.cancelQueued('dolphin');
    const hiddenOf = async (word: string) => (await search(word)).map((hit) => [hit.message_id, hit.hidden]);
    expect(await hiddenOf('walrus')).toEqual([['walrus', false]]);
    expect(await hiddenOf('seal')).toEqual([['seal', true]]);
    expect(await hiddenOf('otter')).toEqual([['otter', false]]);
    expect(await hiddenOf('dolphin')).toEqual([['dolphin', true]]);
    await session.rewind('otter');
    await session.unrewind();
    expect(await hiddenOf('otter')).toEqual([['otter', false]]);
  });

  it('T6 finds only the messages of its user, also by the word that stands for the user in the index', async () => {
    const session = await Session.at('chatting', db, { user: 'eve' });
    const { run_seq: run } = (await session.say('the secret is pineapple', { id: 'm', user: 'eve' })) as {
      run_seq: number;
    };
    await session.claim(run, [0, run, 1]);
    await session.settleRun(run, 'aborted');
    expect(await idsOf('pineapple', 'eve')).toEqual(['m']);
    expect(await idsOf('pineapple')).toEqual([]);
    // Also if the newest messages of all have enough of them.
    await db.query(
      `INSERT INTO message_search (session_id, message_id, user_id, created_at, words)
       SELECT session_id, message_id || n, user_id, created_at, words FROM message_search, generate_series(1, 19) AS n
        WHERE session_id = $1 AND message_id = 'm'`,
      [session.id],
    );
    expect(await idsOf('pineapple', 'eve')).toEqual(['m']);
    expect(await idsOf('pineapple')).toEqual([]);
    const [word] = await rows(db, `SELECT user_word('eve') AS word`);
    for (const query of [
      word!['word'] as string,
      `or ${String(word!['word'])}`,
      '-nothing',
      '-a or -b',
      'pineapple or -x',
    ]) {
      expect((await search(query)).filter((hit) => hit.session_id === session.id)).toEqual([]);
    }
  });

  it.each(["'", '"', '\\', '!!', '& | !', ':*', '((', "a' | 'b", '""', ' ', '-', 'or', '<->', '\u0001', '🦭', '漢字'])(
    'T6 %j is a query like any other',
    async (query) => expect(await search(query)).toEqual([]),
  );

  it('T6 a turn is found once it is over, and streaming adds nothing to the index', async () => {
    const session = await Session.at('chatting', db);
    const { run_seq: run } = (await session.say('a kestrel?', { id: 'kestrel' })) as { run_seq: number };
    await session.claim(run, [0, 1, 1]);
    const part = textPart(0, '');
    const indexed = () => rows(db, `SELECT FROM search_queue WHERE session_id = $1`, [session.id]);
    await session.append(run, [0, 1, 1], [part], [{ part_id: part.id, start: 0, text: 'a falcon' }]);
    expect(await indexed()).toEqual([]);
    expect(await idsOf('kestrel or falcon')).toEqual([]);
    await session.abort();
    await session.settleRun(run, 'aborted');
    expect(await indexed()).toHaveLength(1);
    expect(await idsOf('kestrel or falcon')).toHaveLength(2);
    expect(await indexed()).toEqual([]);
  });

  it('T6 a new answer and the earlier one are both found', async () => {
    const session = await Session.at('chatting', db);
    const first = await said(session, 'bird', 'Which bird?', 'A nuthatch.');
    const { run_seq: run } = (await session.regenerate('bird')) as { run_seq: number };
    const { answer_id: second } = (await session.claim(run, [0, run, 1])) as { answer_id: string };
    const part = textPart(0, '');
    await session.append(run, [0, run, 1], [part], [{ part_id: part.id, start: 0, text: 'A wryneck' }]);
    expect((await search('nuthatch')).map((hit) => [hit.message_id, hit.hidden])).toEqual([[first, true]]);
    await session.settleStep(run, [0, run, 1], {
      parts: [{ ...part, data: { type: 'text', text: 'A wryneck, no doubt.' }, settled: true }],
      end: true,
    });
    expect((await search('wryneck doubt')).map((hit) => [hit.message_id, hit.hidden])).toEqual([[second, false]]);
  });

  it('T6 a copied conversation is found in both sessions, and nothing of an erased one', async () => {
    const session = await conversation(db, 'capybara');
    const { session_id: copy } = await session.apply('branch', { from_message_id: 'capybara' });
    const sessionsOf = async () => (await search('capybara')).map((hit) => hit.session_id).toSorted();
    expect(await sessionsOf()).toEqual([session.id, copy as string].toSorted());
    const erase = { sessionId: session.id, userId: 'ada', home: 'h', wholeUser: false };
    await told(session, 'tapir');
    await eraseSession(db, erase);
    expect(await search('capybara or tapir')).toEqual([]);
    const left =
      'SELECT FROM message_search WHERE session_id = $1 UNION ALL SELECT FROM search_queue WHERE session_id = $1';
    expect(await rows(db, left, [session.id])).toEqual([]);
  });

  it('T6 a long text is found by its first and by its last words, with a snippet around them', async () => {
    const session = await Session.at('chatting', db);
    const text = `aardvark ${'filler words '.repeat(8_000)} zebra in the end ${'more '.repeat(30_000)}`;
    const answer = await said(session, 'long', 'tell me', text);
    for (const word of ['aardvark', 'zebra']) {
      const [hit] = await search(word);
      expect(hit?.message_id).toBe(answer);
      expect(hit!.snippet.length).toBeLessThan(1_000);
      expect(hit!.matches.map(({ start, end }) => hit!.snippet.slice(start, end))).toEqual([word]);
      expect(hit!.snippet.startsWith(word)).toBe(word === 'aardvark');
    }
  });

  it('T6 of a long text the part with the word is shown, not one in which it is within another', async () => {
    const session = await Session.at('chatting', db);
    await said(session, 'ring', `${'megaphone '.repeat(700)}(phone) ${'saxophone. '.repeat(700)}c++ phone?`, 'yes');
    const marksOf = async (query: string) =>
      (await search(query)).map(({ snippet, matches }) => matches.map(({ start, end }) => snippet.slice(start, end)));
    expect(await marksOf('phone')).toEqual([['phone']]);
    expect(await marksOf('(phone)')).toEqual([['phone']]);
    expect(await marksOf('c++')).toEqual([['c']]);
  });

  it('T6 what is typed often counts once, however often it is in a text', async () => {
    const session = await Session.at('chatting', db);
    await said(session, 'song', 'warbler '.repeat(1_000), 'yes');
    const often = 'warbler "warbler warbler" '.repeat(20);
    expect(await search(often)).toEqual(await search('warbler "warbler warbler"'));
    const sql = 'SELECT jsonb_array_length(matches) AS n FROM find_messages($1, $2, 20)';
    const [found] = await rows(db, sql, ['ada', often]);
    expect(found!['n']).toBeLessThanOrEqual(2 * 255);
  });

  it('T6 a word of more than 2 KB is found, and what follows it is marked where it is', async () => {
    const session = await Session.at('chatting', db);
    const digest = 'f'.repeat(2_100);
    await said(session, 'digest', `${digest} pecan, ${'猫'.repeat(700)} pecan`, 'yes');
    const [hit] = await search('pecan');
    expect(hit!.matches.map(({ start, end }) => hit!.snippet.slice(start, end))).toEqual(['pecan', 'pecan']);
    expect(await idsOf(digest)).toEqual(['digest']);
    expect(await idsOf(`${digest.slice(0, 512)} pecan`)).toEqual(['digest']);
  });

  it('T6 texts that Postgres finds hard to index are passed over by none of the next ones', async () => {
    const session = await Session.at('chatting', db);
    const distinct = Array.from({ length: 60_000 }, (_, n) => String.fromCodePoint(131_072 + n, 140_000 + (n % 97)));
    await said(session, 'many', distinct.join(' '), 'x'.repeat(300_000));
    await said(session, 'marks', 'a \u0002 walnut \u0003 b \u0003 c \u0002', `${'\u0002'.repeat(50)} hazelnut`);
    await said(session, 'after', 'a chestnut', 'yes');
    expect(await idsOf('chestnut')).toEqual(['after']);
    const [marked] = await search('walnut');
    expect(marked?.matches.map(({ start, end }) => marked.snippet.slice(start, end).trim())).toContain('walnut');
    expect((await search('hazelnut')).map((hit) => hit.snippet)).toEqual([`${'\u0002'.repeat(50)} hazelnut`]);
  });

  it('T6 workers index what no search has indexed yet, in batches, each message once', async () => {
    const fresh = await freshRows();
    await conversation(fresh, ...Array.from({ length: 12 }, (_, n) => `word${n}`));
    const sizes = await batchesOf(fresh, 7);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThanOrEqual(24);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(8);
    expect(await rows(fresh, 'SELECT FROM message_search')).toHaveLength(24);
    expect(await rows(fresh, 'SELECT FROM search_queue')).toEqual([]);
  });

  it('T6 a queue of empty ranges holds nothing up, and an import without messages queues none', async () => {
    const fresh = await freshRows();
    const [empty, session] = [await Session.at('chatting', fresh), await Session.at('chatting', fresh)];
    await fresh.query('SELECT queue_search($1, 0, 1000000)', [empty.id]);
    expect(await rows(fresh, 'SELECT FROM search_queue')).toEqual([]);
    await fresh.query(
      `INSERT INTO search_queue (user_id, session_id, from_position, to_position)
       SELECT 'ada', $1, 0, 0 FROM generate_series(1, 3)`,
      [empty.id],
    );
    await said(session, 'fox', 'a fennec', 'a fox');
    expect(await indexMessages(fresh, 3)).toBe(3);
    expect(await indexMessages(fresh, 3)).toBe(2);
    expect(await indexMessages(fresh, 3)).toBe(0);
    expect((await searchMessages(fresh, 'ada', 'fennec', 20)).map((hit) => hit.message_id)).toEqual(['fox']);
  });

  it('T6 a text whose words do not fit into the index is found by its first ones, and holds no other up', async () => {
    const session = await Session.at('chatting', db);
    // Each of these characters is another word.
    const characters = (from: number, length: number) =>
      Array.from({ length }, (_, n) => String.fromCodePoint(from + n)).join('');
    const text = `${characters(13_312, 6_000)} ptarmigan ${characters(20_000, 20_000)}${characters(131_072, 131_000)} grouse`;
    await said(session, 'characters', text, 'a partridge');
    expect((await search('partridge')).map((hit) => hit.role)).toEqual(['assistant']);
    expect(await idsOf('ptarmigan')).toEqual(['characters']);
    expect(await idsOf('grouse')).toEqual([]);
  });

  it('T6 a batch of long texts ends earlier, and goes on with the next', async () => {
    const fresh = await freshRows();
    const session = await Session.at('chatting', fresh);
    for (const id of ['one', 'two', 'three']) await said(session, id, `${id} ${'more '.repeat(8_000)}`, 'yes');
    const sizes = await batchesOf(fresh, 5);
    expect(sizes).toHaveLength(4);
    expect(await rows(fresh, 'SELECT FROM message_search')).toHaveLength(6);
  });

  it('T6 indexers at once do not wait for each other, nor for a turn', async () => {
    const session = await conversation(db, 'lynx', 'bobcat');
    await db.query('SELECT queue_search($1, 0, 1000000)', [session.id]);
    const holder = await db.connect();
    try {
      await holder.query('BEGIN');
      await holder.query('SELECT lock_session($1)', [session.id]);
      await holder.query('SELECT FROM search_queue FOR UPDATE');
      await holder.query(`SET LOCAL lock_timeout = '100ms'`);
      expect(await search('lynx')).toHaveLength(0);
      await indexMessages(db, 100);
    } finally {
      await holder.query('ROLLBACK');
      holder.release();
    }
    expect(await idsOf('lynx')).toEqual(['lynx']);
  });
});

describe('words of every language', async () => {
  const TEXTS: Record<string, string> = {
    chinese: '我喜欢猫咪。你呢？',
    japanese: '吾輩は猫である・名前はまだ無い「ネコ」',
    korean: '고양이를 좋아합니다',
    thai: 'แมวดื่มน้ำทุกวัน',
    hebrew: 'הַחָתוּל אוֹהֵב חלב',
    hindi: 'बिल्ली दूध पीती है',
    emoji: 'hello🦭 and 👍🏽, 👨‍👩‍👧 or 🇩🇪 ❤️',
    quotes: 'He said “rhubarb”—then ‘custard’…\u00A0quince',
    paths: 'See store/search.ts, https://example.com/a?b=c and me@example.org',
    marked: 'Un cafe\u0301 sur l’ÎLE',
    greek: 'ΟΔΟΣ Ναυαρίνου',
    wide: 'ＦＵＬＬ　ｗｉｄｔｈ',
    html: 'a <b>bold</b> snake_case &amp; 3.14',
  };
  const fresh = await freshRows();
  const session = await Session.at('chatting', fresh);
  for (const [id, text] of Object.entries(TEXTS)) await said(session, id, text, 'yes');

  it.each([
    ['猫咪', 'chinese', ['猫咪']],
    ['喜欢', 'chinese', ['喜欢']],
    ['猫', 'chinese japanese', []],
    ['猫喜', '', []],
    ['猫である', 'japanese', ['猫である']],
    ['ネコ', 'japanese', ['ネコ']],
    ['고양이', 'korean', ['고양이']],
    ['น้ำ', 'thai', ['น้ำ']],
    ['חלב', 'hebrew', ['חלב']],
    ['दूध', 'hindi', ['दूध']],
    ['🦭', 'emoji', ['🦭']],
    ['hello', 'emoji', ['hello']],
    ['hello🦭', 'emoji', ['hello🦭']],
    ['👍', 'emoji', ['👍']],
    ['👍 or nothing', 'emoji', ['👍']],
    ['🇩🇪', 'emoji', ['🇩🇪']],
    ['❤', 'emoji', ['❤']],
    ['rhubarb', 'quotes', ['rhubarb']],
    ['“RHUBARB then”', 'quotes', ['rhubarb”—then']],
    ['custard quince', 'quotes', ['custard', 'quince']],
    ['search.ts', 'paths', ['search.ts']],
    ['example', 'paths', ['example', 'example']],
    ['example.com/a', 'paths', ['example.com/a']],
    ['--example', 'paths', ['example', 'example']],
    ['café île', 'marked', ['café', 'ÎLE']],
    ['οδός or οδος', 'greek', ['ΟΔΟΣ']],
    ['width', 'wide', ['ｗｉｄｔｈ']],
    ['ｆｕｌｌ', 'wide', ['ＦＵＬＬ']],
    ['snake_case bold', 'html', ['bold', 'snake_case']],
    ['3.14', 'html', ['3.14']],
  ])('T6 %s is found as it was typed, and its text is shown as it is', async (query, ids, marks) => {
    const hits = await searchMessages(fresh, 'ada', query, 20);
    expect(hits.map((hit) => hit.message_id).toSorted()).toEqual(ids.split(' ').filter(Boolean).toSorted());
    for (const { message_id: id, snippet, matches } of hits) {
      expect(snippet).toBe(TEXTS[id]!.normalize('NFC'));
      if (hits.length > 1) continue;
      expect(matches.map(({ start, end }) => snippet.slice(start, end).toLowerCase())).toEqual(
        marks.map((mark) => mark.toLowerCase()),
      );
    }
  });

  it('T6 the same words are indexed in a database of every locale', async () => {
    const UTF8 = ['en_US.utf8', 'en_US.UTF-8', 'C.utf8', 'C.UTF-8'];
    const functions = await rows(
      fresh,
      `SELECT pg_get_functiondef(oid) AS sql FROM pg_proc
        WHERE proname IN ('user_word', 'folded_text', 'word_pattern', 'words_in', 'plain_words', 'words_of', 'search_language')
          AND pronamespace = current_schema()::regnamespace`,
    );
    const wordsIn = async (database: pg.Pool) =>
      rows(database, 'SELECT words_of($2, text)::text AS words FROM unnest($1::text[]) AS text', [
        Object.values(TEXTS).map((text) => text.normalize('NFC')),
        'ada',
      ]);
    const expected = await wordsIn(fresh);
    const known = await rows(
      fresh,
      `SELECT collname FROM pg_collation WHERE collprovider = 'c' AND collname = ANY ($1)`,
      [UTF8],
    );
    const locales = ['C', ...known.map((row) => String(row['collname']))];
    expect(locales.length).toBeGreaterThan(1);
    for (const [n, locale] of locales.entries()) {
      const name = `${String((await rows(fresh, 'SELECT current_database() AS name'))[0]!['name'])}_${n}`;
      await fresh.query(`CREATE DATABASE ${name} TEMPLATE template0 LOCALE_PROVIDER libc LOCALE '${locale}'`);
      const url = new URL(fresh.options.connectionString!);
      url.pathname = name;
      const other = patientPool(url.href, { max: 1 });
      try {
        await other.query(`SET check_function_bodies = off; CREATE TABLE search_index (language text);
          INSERT INTO search_index VALUES ('simple'); ${functions.map((row) => String(row['sql'])).join(';')}`);
        expect({ locale, words: await wordsIn(other) }).toEqual({ locale, words: expected });
      } finally {
        await other.end();
        await fresh.query(`DROP DATABASE ${name} WITH (FORCE)`);
      }
    }
  });
});

describe('the language of the search', () => {
  const found = async (database: pg.Pool, query: string) =>
    (await searchMessages(database, 'ada', query, 20)).map((hit) => hit.message_id).toSorted();

  it('T6 words match in their other forms in a language with stemming; old messages are indexed again, in batches', async () => {
    const fresh = await freshRows();
    const session = await conversation(fresh, ...Array.from({ length: 9 }, (_, n) => `filler${n}`));
    await said(session, 'three', 'three otters were swimming', 'yes');
    await batchesOf(fresh, 100);
    expect(await found(fresh, 'swim')).toEqual([]);
    expect(await applySearchLanguage(fresh, 'english')).toBeNull();
    expect(await applySearchLanguage(fresh, 'english')).toBeNull();
    await said(session, 'one', 'an otter swims', 'yes');
    expect(await found(fresh, 'swim')).toEqual(['one']);
    const sizes = await batchesOf(fresh, 7);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(8);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(22);
    expect(await found(fresh, 'swim')).toEqual(['one', 'three']);
    const [hit] = await searchMessages(fresh, 'ada', 'three swam or "otter were swim"', 20);
    expect(hit!.matches.map(({ start, end }) => hit!.snippet.slice(start, end))).toEqual([
      'three',
      'otters were swimming',
    ]);
    expect(await found(fresh, '我')).toEqual([]);
    expect(await found(fresh, 'the')).toEqual([]);
    await applySearchLanguage(fresh, 'simple');
    await batchesOf(fresh, 7);
    expect(await found(fresh, 'swim')).toEqual([]);
    expect(await found(fresh, 'swims')).toEqual(['one']);
  });

  it('T6 one that Postgres does not have changes nothing, and those that it has are named', async () => {
    const fresh = await freshRows();
    for (const language of ['klingon', 'pg_catalog.simple', "'"]) {
      expect(await applySearchLanguage(fresh, language)).toEqual(
        expect.arrayContaining(['simple', 'english', 'german']),
      );
    }
    expect(await rows(fresh, 'SELECT language, again_session FROM search_index')).toEqual([
      { language: 'simple', again_session: null },
    ]);
  });

  it('T6 what an earlier version has indexed is indexed again, and only by one indexer at a time', async () => {
    const fresh = await freshRows();
    const session = await Session.at('chatting', fresh);
    await said(session, 'first', 'see store/search.ts', '我喜欢猫咪');
    await batchesOf(fresh, 100);
    await fresh.query(`UPDATE message_search SET words = array_to_tsvector(ARRAY[user_word('ada')]);
      UPDATE search_index SET again_session = '', again_message = ''`);
    expect(await found(fresh, '猫咪')).toEqual([]);
    const holder = await fresh.connect();
    try {
      await holder.query('BEGIN');
      await holder.query('SELECT index_messages(NULL, 1)');
      expect(await indexMessages(fresh, 100)).toBe(0);
    } finally {
      await holder.query('COMMIT');
      holder.release();
    }
    expect(await batchesOf(fresh, 2)).toEqual([1]);
    expect(await found(fresh, '猫咪 or search.ts')).toHaveLength(2);
  });

  it('T6 what stays as it is indexed is not written again', async () => {
    const fresh = await freshRows();
    await said(await Session.at('chatting', fresh), 'first', 'she walked', '我喜欢猫咪');
    await batchesOf(fresh, 100);
    const written = async () => (await rows(fresh, 'SELECT ctid::text FROM message_search')).map((row) => row['ctid']);
    const before = await written();
    await applySearchLanguage(fresh, 'english');
    expect(await batchesOf(fresh, 100)).toEqual([2]);
    const after = await written();
    expect(before.filter((place) => after.includes(place))).toHaveLength(1);
    expect(await found(fresh, 'walk')).toEqual(['first']);
  });

  it('T6 a change waits for those who index in the other language, so that none of their messages is left out', async () => {
    const fresh = await freshRows();
    await said(await Session.at('chatting', fresh), 'walkers', 'they walked', 'yes');
    const indexer = await fresh.connect();
    try {
      await indexer.query('BEGIN');
      await indexer.query('SELECT index_messages(NULL, 100)');
      const changed = applySearchLanguage(fresh, 'english');
      await untilBlocked(fresh);
      await indexer.query('COMMIT');
      await changed;
    } finally {
      indexer.release();
    }
    await batchesOf(fresh, 100);
    expect(await found(fresh, 'walk')).toEqual(['walkers']);
  });
});
