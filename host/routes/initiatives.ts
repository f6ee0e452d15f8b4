import { z } from 'zod';
import type { InitiativeEvent } from '../../client/initiatives/initiative-reader.ts';
import type { StateDocument } from '../../client/initiatives/initiatives.ts';
import { PerdureError } from '../../domain/errors.ts';
import * as body from '../../wire/initiative-requests.ts';
import * as view from '../../wire/initiative-views.ts';
import { page } from '../../wire/requests.ts';
import { pageOf } from '../../wire/responses.ts';
import { type Api, events, jsonResponse } from '../api/api.ts';
import { expiryOf } from '../api/expiry.ts';
import type { RequestContext, RouteParts } from '../context.ts';
import { loggedProblem } from '../http/problem.ts';
import { bytesWithin, bodyText } from '../http/read-body.ts';
import { eventStream, namedEvent } from '../streams/event-stream.ts';

const tag = 'Initiatives' as const;
const ETAG = { etag: z.string().meta({ description: 'For If-Match' }) };

/** Initiatives: creation, reading, and STATE.md. */
export function initiativeRoutes(api: Api, parts: RouteParts): void {
  const { client, basePath, maxBodyBytes, readers, log, closing } = parts;
  const { initiatives } = client;
  api.post(
    '/api/initiatives',
    {
      operationId: 'createInitiative',
      tag,
      summary: 'Create an initiative with its phases, plans and tasks',
      description: 'Phases, plans and tasks are numbered from 1 in their order.',
      command: 'createInitiative',
      params: {},
      body: body.createInitiativeBody,
      idempotent: true,
      responses: { 201: jsonResponse(view.initiativeItem, 'The initiative', { location: z.string() }) },
      errors: ['ProjectNotFound'],
    },
    async (c, { user, body: given, idempotencyKey }) => {
      const made = await initiatives.create(user, given, { idempotencyKey });
      return c.json(made, 201, { location: `${basePath}/api/initiatives/${made.initiative.initiative_id}` });
    },
  );

  api.post(
    '/api/initiatives/import',
    {
      operationId: 'importInitiative',
      tag,
      summary: 'Create an initiative from the folder .planning/',
      description:
        'A gzipped tar file of the folder: STATE.md, plans, summaries, decisions and resolved blockers. Every line that could not ' +
        'be read is named with its file; then nothing is stored. At most 1 MiB (PERDURE_MAX_BODY), and 16 MiB when uncompressed.',
      command: 'importInitiative',
      params: {},
      query: z.strictObject({
        dry_run: z.enum(['true', 'false']).optional().meta({ description: 'true: only report what would be read' }),
      }),
      rawBody: { 'application/gzip': z.string() },
      idempotent: true,
      responses: {
        200: jsonResponse(view.planningCheck, 'What would be read'),
        201: jsonResponse(view.importedInitiative, 'The initiative', { location: z.string() }),
      },
      errors: ['TooLarge'],
    },
    async (c, { user, query, idempotencyKey }) => {
      const archive = await bytesWithin(c.req.raw, { bytes: maxBodyBytes, setting: 'PERDURE_MAX_BODY' });
      if (query.dry_run === 'true') return c.json({ report: await initiatives.checkPlanning(archive) });
      const made = await initiatives.importPlanning(user, archive, { idempotencyKey });
      return c.json(made, 201, { location: `${basePath}/api/initiatives/${made.initiative.initiative_id}` });
    },
  );

  api.get(
    '/api/initiatives',
    {
      operationId: 'listInitiatives',
      tag,
      summary: 'List your own initiatives, newest first',
      params: {},
      query: page,
      responses: { 200: jsonResponse(pageOf(view.initiativeItem), 'A page; pass `next` as `after`') },
    },
    async (c, { user, query }) => c.json(await initiatives.list(user, query)),
  );

  api.get(
    '/api/initiatives/:id',
    {
      operationId: 'getInitiative',
      tag,
      summary: 'Read an initiative with all that belongs to it',
      params: { id: body.initiativeRef },
      responses: { 200: jsonResponse(view.initiativeView, 'The initiative') },
      errors: ['InitiativeNotFound'],
    },
    async (c, { user, params }) => c.json(await initiatives.get(user, params.id)),
  );

  api.get(
    '/api/initiatives/:id/decisions/:decision_id',
    {
      operationId: 'getDecision',
      tag,
      summary: 'Read a decision',
      params: { id: body.initiativeRef, decision_id: body.decisionRef },
      responses: { 200: jsonResponse(view.decisionAnswer, 'The decision') },
      errors: ['InitiativeNotFound', 'DecisionNotFound'],
    },
    async (c, { user, params }) =>
      c.json({ decision: await initiatives.decision(user, params.id, params.decision_id) }),
  );

  api.post(
    '/api/initiatives/:id/resume',
    {
      operationId: 'resumeInitiative',
      tag,
      summary: 'Check the workspace, and read what is needed to go on',
      description:
        'Entries of resume_context that are not in the workspace are flagged: until they are reviewed, nobody is given a task.',
      command: 'resumeInitiative',
      params: { id: body.initiativeRef },
      idempotent: true,
      responses: { 200: jsonResponse(view.initiativeResume, 'Where it goes on') },
      errors: ['InitiativeNotFound', 'WorkspaceNotUsable'],
    },
    // A repeat flags nothing again.
    async (c, { user, params }) => c.json(await initiatives.resume(user, params.id)),
  );

  api.get(
    '/api/initiatives/:id/events',
    {
      operationId: 'followInitiative',
      tag,
      summary: 'Follow the changes of an initiative',
      description: 'Stays open until the reader disconnects or the token expires. Comments keep the connection alive.',
      params: { id: body.initiativeRef },
      responses: {
        200: events(
          'Events with JSON data: `state { initiative, state }`, now and when it has changed; `change { seq, at, kind, actor, ' +
            'data }`, each change, with ids in `data`. `error` and `expired` (the token has expired) hold problem details and ' +
            'end the stream.',
        ),
      },
      errors: ['InitiativeNotFound', 'TooMany'],
    },
    async (c, { user, params }) => {
      await initiatives.requireOwn(user, params.id);
      return eventStream<InitiativeEvent>({
        read: (signal) => client.initiativeEvents(user, params.id, { signal }),
        write: ({ event, data }) => namedEvent(event, data),
        fail: (error) => namedEvent('error', loggedProblem(error, log, { initiative: params.id })),
        closing,
        expiry: expiryOf(c),
        onOver: readers.admit(user, 'initiative'),
      });
    },
  );

  api.get(
    '/api/initiatives/:id/planning.tar.gz',
    {
      operationId: 'exportInitiative',
      tag,
      summary: 'Export an initiative as the folder .planning/',
      params: { id: body.initiativeRef },
      responses: { 200: { mediaType: 'application/gzip', description: 'A tar file of Markdown files' } },
      errors: ['InitiativeNotFound'],
    },
    async (c, { user, params }) => {
      const archive = await initiatives.planning(user, params.id);
      return c.body(new Uint8Array(archive), 200, { 'content-type': 'application/gzip' });
    },
  );

  api.get(
    '/api/initiatives/:id/STATE.md',
    {
      operationId: 'readStateFile',
      tag,
      summary: 'Read STATE.md',
      params: { id: body.initiativeRef },
      responses: { 200: { mediaType: 'text/markdown', description: 'YAML with headings in comments', headers: ETAG } },
      errors: ['InitiativeNotFound'],
    },
    async (c, { user, params }) => answerState(c, await initiatives.stateDocument(user, params.id)),
  );

  api.put(
    '/api/initiatives/:id/STATE.md',
    {
      operationId: 'editStateFile',
      tag,
      summary: 'Send an edited STATE.md back',
      description:
        'The header If-Match has the ETag of the file that was edited. What was changed becomes updates, all or none; a line ' +
        'that cannot be one is a BadRequest with its number.',
      command: 'editState',
      params: { id: body.initiativeRef },
      rawBody: { 'text/markdown': z.string() },
      responses: { 200: { mediaType: 'text/markdown', description: 'The file afterwards', headers: ETAG } },
      errors: ['InitiativeNotFound', 'StaleState', 'PreconditionRequired', 'TooLarge'],
    },
    async (c, { user, params }) => {
      let text = '';
      const limit = {
        bytes: maxBodyBytes,
        setting: 'PERDURE_MAX_BODY; a larger STATE.md is changed by the other routes',
      };
      for await (const piece of bodyText(c.req.raw, limit)) text += piece;
      await initiatives.requireOwn(user, params.id);
      return answerState(c, await initiatives.editState(user, params.id, text, versionsOf(c.req.header('if-match'))));
    },
  );
}

function answerState(c: RequestContext, { text, version }: StateDocument): Response {
  return c.body(text, 200, { 'content-type': 'text/markdown; charset=utf-8', etag: `"v${version}"` });
}

/** The versions in an If-Match header. @throws {PerdureError} `PreconditionRequired` if there is none */
function versionsOf(header: string | undefined): number[] | '*' {
  if (header === undefined) {
    throw new PerdureError('PreconditionRequired', 'If-Match: expected the ETag of the STATE.md that was edited');
  }
  if (header.trim() === '*') return '*';
  // A weak tag never matches (RFC 9110, 13.1.1).
  return [...header.matchAll(/(?<!W\/)"v(\d{1,15})"/g)].map(([, version]) => Number(version));
}
