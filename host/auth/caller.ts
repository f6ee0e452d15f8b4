import { attributesProblem } from '../../domain/attributes.ts';
import { PerdureError } from '../../domain/errors.ts';
import { isTemporary } from '../../store/is-temporary.ts';
import type { Caller, Identify, PageHandler } from '../context.ts';
import { isUser } from './loopback-user.ts';

/** Calls `identify` and checks what it returns. @throws {PerdureError} its own; `Internal`, naming the hook */
export async function callerOf(identify: Identify, request: Request): Promise<Caller> {
  const caller: unknown = await calling('identify', CALLER, () => identify(request));
  if (typeof caller !== 'object' || caller === null || !('user' in caller) || !isUser(caller.user)) {
    throw new PerdureError('Internal', `the hook identify returned something else: expected ${CALLER}`);
  }
  const { attributes, admin, readsAll } = caller as Caller;
  for (const [name, may] of Object.entries({ admin, readsAll })) {
    if (may === undefined || typeof may === 'boolean') continue;
    throw new PerdureError(
      'Internal',
      `the hook identify returned something else: expected ${name} to be true or false`,
    );
  }
  const problem = attributes === undefined ? undefined : attributesProblem(attributes, credentialsOf(request));
  if (problem === undefined) return caller as Caller;
  throw new PerdureError(
    'Internal',
    `the hook identify returned attributes that cannot be stored: expected ${problem}`,
  );
}

/** Shorter words are too likely to be part of something else, and shorter cookies to be no secret, such as a tenant's id. */
const SHORTEST_WORD = 12;
const SHORTEST_COOKIE = 40;

/** What may authenticate the request: the words of its header `authorization`, and the values of its cookies. */
function credentialsOf({ headers }: Request): string[] {
  const cookies = (headers.get('cookie') ?? '').split(/;\s*/).map((cookie) => cookie.slice(cookie.indexOf('=') + 1));
  const words = (headers.get('authorization') ?? '').split(/[\s,]+/);
  return [
    ...words.filter(({ length }) => length >= SHORTEST_WORD),
    ...cookies.filter(({ length }) => length >= SHORTEST_COOKIE),
  ];
}

const CALLER = '{ user } with a user of 1 to 128 printable ASCII characters, or a PerdureError such as Unauthorized';

/** Calls the guard of `identify`. @throws {PerdureError} its own; `Internal`, naming the hook */
export function guard(identify: Identify, request: Request): Promise<void> {
  return calling('identify.guard', 'nothing, or a PerdureError such as Forbidden', () => identify.guard?.(request));
}

/** Calls `page`. @throws {PerdureError} its own; `Internal`, naming the hook */
export function pageResponse(page: PageHandler, request: Request): Promise<Response | undefined> {
  return calling('page', 'a Response or undefined', () => page(request));
}

/** The cause of a hook's error is logged, and not shown to callers. */
async function calling<T>(name: string, expected: string, call: () => T | Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof PerdureError || isTemporary(error)) throw error;
    throw new PerdureError('Internal', `the hook ${name} threw an error: expected ${expected}`, { cause: error });
  }
}
