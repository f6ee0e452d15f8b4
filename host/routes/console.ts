import { z } from 'zod';
import { consolePast, consoleReplay, consoleSession, consoleTurn, consoleViewer } from '../../wire/console.ts';
import { consoleNumbers } from '../../wire/numbers.ts';
import {
  consoleSessionsQuery,
  logQuery,
  numbersQuery,
  pastQuery,
  sessionRef,
  turnsQuery,
} from '../../wire/requests.ts';
import { logEntry, pageOf, sessionView, systemPrompt } from '../../wire/responses.ts';
import { type Api, jsonResponse, ofSession } from '../api/api.ts';
import type { RequestContext, RouteParts } from '../context.ts';

/** What the console shows of sessions: of one's own, or for callers that may read all, of all users. No session is changed. */
export function consoleRoutes(api: Api, { client, temporalWorkflows, readers }: RouteParts): void {
  const reads = client.console;
  const viewer = (c: RequestContext) => ({ user: c.get('user'), readsAll: c.get('readsAll') });

  api.get(
    '/api/console',
    {
      operationId: 'getConsoleViewer',
      tag: 'Console',
      summary: 'Whose sessions the console may show to you',
      params: {},
      responses: { 200: jsonResponse(consoleViewer, 'You') },
    },
    (c) => c.json({ user: c.get('user'), reads_all: c.get('readsAll') }),
  );

  api.get(
    '/api/console/sessions',
    {
      operationId: 'listConsoleSessions',
      tag: 'Console',
      summary: "List your own sessions, or if you may read all, all users', newest first",
      description: 'With side chats, children and archived sessions.',
      params: {},
      query: consoleSessionsQuery,
      responses: { 200: jsonResponse(pageOf(sessionView), 'A page; pass `next` as `after`') },
    },
    async (c, { query }) => c.json(await reads.sessions(viewer(c), query)),
  );

  api.get(
    '/api/console/numbers',
    {
      operationId: 'getConsoleNumbers',
      tag: 'Console',
      summary: 'Count what happened in your sessions, or if you may read all, in those of all users',
      description: 'In the hour, day or week until now, in parts of equal length.',
      params: {},
      query: numbersQuery,
      responses: { 200: jsonResponse(consoleNumbers, 'Turns, steps, tokens, cost and errors, and what is open now') },
    },
    async (c, { query }) => {
      const numbers = await reads.numbers(viewer(c), query, { signal: c.req.raw.signal });
      return c.json({ ...numbers, now: { ...numbers.now, streams: readers.open(numbers.user) } });
    },
  );

  api.get(
    '/api/console/sessions/:id',
    {
      ...ofSession,
      operationId: 'getConsoleSession',
      tag: 'Console',
      summary: 'Read a session, and where its workflow is shown',
      responses: { 200: jsonResponse(consoleSession, 'The session') },
    },
    async (c, { params }) => {
      const session = await reads.session(viewer(c), params.id);
      const { session_id: id } = session.session;
      const url = temporalWorkflows === undefined ? null : `${temporalWorkflows}/${id}`;
      return c.json({ ...session, temporal_url: url });
    },
  );

  api.get(
    '/api/console/sessions/:id/turns',
    {
      ...ofSession,
      operationId: 'listConsoleTurns',
      tag: 'Console',
      summary: "Read a session's turns with their steps and tool calls, newest first",
      query: turnsQuery,
      responses: { 200: jsonResponse(pageOf(consoleTurn), 'A page; pass `next` as `before`') },
    },
    async (c, { params, query }) => c.json(await reads.turns(viewer(c), params.id, query)),
  );

  api.get(
    '/api/console/sessions/:id/log',
    {
      ...ofSession,
      operationId: 'listConsoleLog',
      tag: 'Console',
      summary: "Read a session's event log, oldest first",
      query: logQuery,
      responses: { 200: jsonResponse(pageOf(logEntry), 'A page; pass `next` as `after`') },
    },
    async (c, { params, query }) => c.json(await reads.log(viewer(c), params.id, query)),
  );

  api.get(
    '/api/console/sessions/:id/past/:seq',
    {
      operationId: 'getConsolePast',
      tag: 'Console',
      summary: 'Read a session as it stood after an event of its log',
      description: 'Only what can be told exactly: parts that were written later are named without their data.',
      params: { id: sessionRef, seq: z.string().meta({ description: 'The `seq` of the event' }) },
      query: pastQuery,
      responses: { 200: jsonResponse(consolePast, 'Phase, state and transcript') },
      errors: ['SessionNotFound', 'NotFound'],
    },
    async (c, { params, query }) => c.json(await reads.past(viewer(c), params.id, params.seq, query)),
  );

  api.get(
    '/api/console/sessions/:id/prompts/:digest',
    {
      operationId: 'getConsolePrompt',
      tag: 'Console',
      summary: 'Read a system prompt of a session',
      description: 'By the `prompt_digest` of a turn.',
      params: { id: sessionRef, digest: z.string().meta({ description: 'The digest of the prompt' }) },
      responses: { 200: jsonResponse(systemPrompt, 'The prompt') },
      errors: ['SessionNotFound', 'PromptNotFound'],
    },
    async (c, { params }) => c.json(await reads.prompt(viewer(c), params.id, params.digest)),
  );

  const replay = { ...ofSession, tag: 'Console' as const };

  api.get(
    '/api/console/sessions/:id/replay',
    {
      ...replay,
      operationId: 'getConsoleReplay',
      summary: "Read what came of the newest replay of a session's histories",
      responses: { 200: jsonResponse(consoleReplay, 'The replay') },
    },
    async (c, { params }) => c.json(await reads.replay(viewer(c), params.id)),
  );

  api.post(
    '/api/console/sessions/:id/replay',
    {
      ...replay,
      operationId: 'askForConsoleReplay',
      summary: "Have a worker replay a session's histories against its workflow code",
      description: 'While a replay of the session waits or runs, nothing is added. The session is not changed.',
      responses: { 202: jsonResponse(consoleReplay, 'The replay that waits or runs') },
      errors: ['SessionNotFound', 'TooMany'],
    },
    async (c, { params }) => c.json(await reads.askForReplay(viewer(c), params.id), 202),
  );
}
