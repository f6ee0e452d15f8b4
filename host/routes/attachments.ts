import { z } from 'zod';
import type { AttachmentContent } from '../../client/uploads/attachments.ts';
import { attachmentQuery, attachmentRef, sessionRef } from '../../wire/requests.ts';
import { attachment } from '../../wire/responses.ts';
import { type Api, jsonResponse } from '../api/api.ts';
import type { RouteParts } from '../context.ts';
import { byteStream } from '../http/byte-stream.ts';
import { discardRest } from '../http/read-body.ts';
import { uploadOf } from '../http/upload.ts';

/** Files of users for their messages. */
export function attachmentRoutes(api: Api, { client, readers }: RouteParts): void {
  api.post(
    '/api/sessions/:id/attachments',
    {
      operationId: 'attach',
      tag: 'Messages',
      summary: 'Store a file for a message',
      description:
        'The body is the file, with its type as Content-Type and its name in the query, or a multipart form with one file: ' +
        'an image (PNG, JPEG, GIF, WebP), a PDF, or text in UTF-8. A file part of a message refers to it by `url`. The same ' +
        'bytes again are the same attachment. An alias without a session opens one.',
      command: 'attach',
      params: { id: sessionRef },
      query: attachmentQuery,
      rawBody: { '*/*': z.string(), 'multipart/form-data': z.object({ file: z.string() }) },
      responses: { 201: jsonResponse(attachment, 'The attachment') },
      errors: ['SessionNotFound', 'TooLarge', 'AgentNotConfigured'],
    },
    async (c, { user, params, query: { filename, agent } }) => {
      const { raw } = c.req;
      const refused = (error: unknown) => {
        discardRest(raw.body);
        throw error;
      };
      await client.findSession(user, params.id).catch(refused);
      const file = await uploadOf(raw).catch(refused);
      const named = { ...file, filename: file.filename ?? filename };
      const attached = client.attach(user, params.id, named, { open: true, agent, signal: raw.signal });
      return c.json(await attached.catch(refused), 201);
    },
  );

  api.get(
    '/api/sessions/:id/attachments/:attachment_id',
    {
      operationId: 'readAttachment',
      tag: 'Messages',
      summary: 'Read a file',
      params: { id: sessionRef, attachment_id: attachmentRef },
      responses: {
        200: {
          mediaType: '*/*',
          description: 'The bytes: an image to show, anything else to download; text is always text/plain',
          headers: { 'content-disposition': z.string() },
        },
      },
      errors: ['SessionNotFound', 'AttachmentNotFound', 'TooMany'],
    },
    async (c, { user, params }) => {
      const release = readers.admit(user, 'attachment');
      try {
        const found = await client.attachment(user, params.id, params.attachment_id);
        return c.body(byteStream(found.content, release), 200, headersOf(found));
      } catch (error) {
        release();
        throw error;
      }
    },
  );
}

function headersOf({ media_type, filename, size }: AttachmentContent): Record<string, string> {
  const isImage = media_type.startsWith('image/');
  const isText = !isImage && media_type !== 'application/pdf';
  return {
    // HTML and scripts of a user must not run with the page's rights.
    'content-type': isText ? 'text/plain; charset=utf-8' : media_type,
    'content-length': String(size),
    'content-disposition': `${isImage ? 'inline' : 'attachment'}${nameIn(filename)}`,
    'cache-control': 'private, max-age=31536000, immutable',
  };
}

/** RFC 6266: an ASCII name for old programs, and the whole name. */
function nameIn(filename: string | null): string {
  if (filename === null) return '';
  const ascii = filename.replaceAll(/[^\w .()+-]/g, '_');
  const whole = encodeURIComponent(filename).replaceAll(/['()*]/g, (each) => `%${Buffer.from(each).toString('hex')}`);
  return `; filename="${ascii}"; filename*=UTF-8''${whole}`;
}
