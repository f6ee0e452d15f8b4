// The files that a user attaches to messages.
import { setTimeout as delay } from 'node:timers/promises';
import { digest, fileContent } from './plan.ts';
import type { Sent, User } from './user.ts';

const TIMEOUT_MS = 9_000;
const TYPES = { image: 'image/png', text: 'text/plain' } as const;

/** Uploads files, and keeps what became of each. */
export class Files {
  /** Those that the server has accepted. */
  readonly uploaded: NonNullable<Sent['file']>[] = [];
  private readonly user: User;

  constructor(user: User) {
    this.user = user;
  }

  /** Uploads a new file, or the same bytes again. Undefined: the session does not exist yet. */
  async upload(): Promise<Sent['file']> {
    const { api, random, session, late } = this.user;
    const kind = random.pick(['image', 'text'] as const);
    const name = random.chance(0.2) ? 'again' : this.user.newName('f');
    const bytes = fileContent(kind, name);
    for (;;) {
      late.throwIfAborted();
      const response = await api
        .fetch(`/api/sessions/${session}/attachments?filename=${name}`, {
          method: 'POST',
          headers: { 'content-type': TYPES[kind] },
          body: new Uint8Array(bytes),
          signal: AbortSignal.any([late, AbortSignal.timeout(TIMEOUT_MS)]),
        })
        .then(async (answer) => ({ status: answer.status, body: (await answer.json()) as { url: string } }))
        .catch(() => undefined);
      if (response?.status === 201) {
        const file = { url: response.body.url, digest: digest(bytes), mediaType: TYPES[kind] };
        this.uploaded.push(file);
        return file;
      }
      if (response !== undefined && response.status !== 503) {
        api.odd.push(`an attachment: ${response.status}`);
        return undefined;
      }
      await delay(random.between(50, 400));
    }
  }
}
