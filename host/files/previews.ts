import { hkdfSync } from 'node:crypto';
import path from 'node:path';
import { EncryptJWT, jwtDecrypt } from 'jose';
import { PerdureError } from '../../domain/errors.ts';
import { workspaceRoot } from '../../workspaces/paths.ts';
import { requireWorkspace } from '../../workspaces/require-workspace.ts';
import { PreviewNames } from './preview-names.ts';

/** The path prefix of preview URLs. */
export const PREVIEW_PATH = '/preview';

const AUDIENCE = 'perdure-preview';
const LIFETIME_S = 3_600;
const KEY_BYTES = 32;
const ENCRYPTION = { alg: 'dir', enc: 'A256GCM' };

export interface PreviewSettings {
  /** Root folder of all workspaces; the same as the workers'. */
  workspaces: string;
  /** Encrypts preview URLs. Hosts with the same secret serve each other's URLs. */
  secret: string | Uint8Array;
  /** The browsers run on the host's machine, so previews also get host names below "localhost". */
  local?: boolean;
}

/**
 * URLs that serve the files of a workspace for an hour. The URL itself grants access, because the untrusted page runs
 * in a sandboxed frame that sends neither cookie nor token. It is encrypted because it contains a path of this machine.
 */
export class Previews {
  private readonly workspaces: string;
  private readonly key: Uint8Array;
  private readonly names: PreviewNames | undefined;

  constructor({ workspaces, secret, local = false }: PreviewSettings) {
    this.workspaces = workspaces;
    this.names = local ? new PreviewNames(secret) : undefined;
    this.key = new Uint8Array(hkdfSync('sha256', secret, '', AUDIENCE, KEY_BYTES));
  }

  /** The workspace of a session. @throws {PerdureError} `WorkspaceNotUsable` */
  rootOf(session: Parameters<typeof workspaceRoot>[1]): string {
    const root = workspaceRoot(this.workspaces, session);
    requireWorkspace(this.workspaces, root);
    return root;
  }

  /** The preview path of a folder, with a trailing slash. */
  async url(root: string, seconds = LIFETIME_S): Promise<string> {
    const token = await new EncryptJWT({ root })
      .setProtectedHeader(ENCRYPTION)
      .setAudience(AUDIENCE)
      .setExpirationTime(`${seconds}s`)
      .encrypt(this.key);
    return `${PREVIEW_PATH}/${token}/`;
  }

  /** The preview URL of a folder on a host name of its own, with the protocol and port of `at`; null: not available. */
  siteUrl(root: string, at: URL, seconds = LIFETIME_S): string | null {
    const until = Math.floor(Date.now() / 1000) + seconds;
    const name = this.names?.nameOf(path.relative(this.workspaces, root), until);
    return name === undefined ? null : `${at.protocol}//${name}${at.port && `:${at.port}`}/`;
  }

  /** The folder of a preview's host name; undefined: not a preview's host name. @throws {PerdureError} `NotFound` */
  readName(hostname: string): string | undefined {
    const folder = this.names?.pathOf(hostname);
    return folder === undefined ? undefined : this.requireRoot(path.join(this.workspaces, folder));
  }

  /** The folder of a preview's token. @throws {PerdureError} `NotFound` for a forged or expired token */
  async read(token: string): Promise<string> {
    try {
      const { payload } = await jwtDecrypt(token, this.key, {
        audience: AUDIENCE,
        requiredClaims: ['exp'],
        keyManagementAlgorithms: [ENCRYPTION.alg],
        contentEncryptionAlgorithms: [ENCRYPTION.enc],
      });
      const root = payload['root'];
      if (typeof root === 'string') return this.requireRoot(root);
    } catch (cause) {
      throw new PerdureError('NotFound', 'this preview URL is invalid or has expired; get a new one', { cause });
    }
    throw new PerdureError('NotFound', 'this preview does not exist');
  }

  private requireRoot(root: string): string {
    try {
      requireWorkspace(this.workspaces, root);
      return root;
    } catch (cause) {
      throw new PerdureError('NotFound', 'this preview no longer exists', { cause });
    }
  }
}
