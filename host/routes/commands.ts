import type { z } from 'zod';
import type { CommandOutcome } from '../../domain/commands.ts';
import { PerdureError } from '../../domain/errors.ts';
import { cancelBody, closeBody, emptyBody, projectBody } from '../../domain/wire.ts';
import { readBody } from '../body.ts';
import type { App, HostParts, RequestContext } from '../context.ts';
import { notYet } from '../not-yet.ts';

/** Whose session a command is for, and what goes along with every one. */
interface Sent {
  user: string;
  session: string;
  options: { idempotencyKey: string | undefined };
}

/** Commands that have their names and are not there yet. */
const LATER = ['rewind', 'unrewind', 'branch', 'compact', 'prune', 'answer', 'archive'];

/** The commands of a session: each answers what the session is afterwards. */
export function commandRoutes(app: App, parts: HostParts): void {
  const { commands } = parts.client;
  const route = <Body>(
    name: string,
    schema: z.ZodType<Body>,
    carryOut: (sent: Sent, body: Body) => Promise<CommandOutcome>,
  ) => {
    app.post(`/api/sessions/:id/${name}`, (c) => carryOutFor(c, parts, c.req.param('id'), name, schema, carryOut));
  };
  route('abort', emptyBody, ({ user, session, options }) => commands.abort(user, session, options));
  route('publish', emptyBody, ({ user, session, options }) => commands.publish(user, session, options));
  route('revert', emptyBody, ({ user, session, options }) => commands.revert(user, session, options));
  route('open', projectBody, ({ user, session, options }, { project_id }) =>
    commands.openExisting(user, session, project_id, options),
  );
  route('close', closeBody, ({ user, session, options }, { abort }) =>
    commands.close(user, session, { ...options, abort }),
  );
  const cancel = ({ user, session, options }: Sent, { reason }: z.output<typeof cancelBody>) =>
    commands.cancel(user, session, { ...options, reason });
  route('cancel', cancelBody, cancel);
  app.post('/api/cancel', (c) => carryOutFor(c, parts, namedSession(c), 'cancel', cancelBody, cancel));
  for (const name of LATER) {
    app.post(`/api/sessions/:id/${name}`, async (c) => {
      c.set('command', name);
      await parts.client.reads.sessionId(c.get('user'), c.req.param('id'));
      throw notYet(name);
    });
  }
}

async function carryOutFor<Body>(
  c: RequestContext,
  { maxBodyBytes }: HostParts,
  session: string,
  name: string,
  schema: z.ZodType<Body>,
  carryOut: (sent: Sent, body: Body) => Promise<CommandOutcome>,
): Promise<Response> {
  c.set('command', name);
  const body = await readBody(c.req.raw, schema, maxBodyBytes);
  const options = { idempotencyKey: c.req.header('idempotency-key') };
  return c.json(await carryOut({ user: c.get('user'), session, options }, body));
}

function namedSession(c: RequestContext): string {
  const session = c.req.query('session_id');
  if (session) return session;
  throw new PerdureError('BadRequest', 'session_id: expected the id of a session in the query');
}
