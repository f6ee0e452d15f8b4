import { useCallback, useEffect, useRef, useState } from 'react';
import type { z } from 'zod';
import type { consoleSession, ConsoleTurn, consoleViewer } from '../../wire/console.ts';
import type { logEntry, sessionView, systemPrompt } from '../../wire/responses.ts';
import { access } from '../api/access.ts';
import type { ListPart } from '../api/api.ts';
import { isRefusal, problemOfResponse, wordsOf } from '../api/problem.ts';

// What the console reads, in the shapes of the routes. It sends no commands.

export type ListedSession = z.infer<typeof sessionView>;
export type ConsoleSessionView = z.infer<typeof consoleSession>;
export type Step = ConsoleTurn['steps'][number];
export type Call = ConsoleTurn['calls'][number];
/** Who did a step or a tool call; times in milliseconds. */
export type ConsoleWork = NonNullable<Step['work']>;
export type LogEntry = z.infer<typeof logEntry>;
export type ConsolePrompt = z.infer<typeof systemPrompt>;
export type Viewer = z.infer<typeof consoleViewer>;

/** Longer than the server's own time limits. */
const ANSWER_MS = 30_000;

/** Reads below /api/console. @throws {ProblemError} or another error if the server cannot be reached */
function read<T>(path: string): Promise<T> {
  return askConsole('GET', path);
}

/** A request below /api/console, without a body. @throws {ProblemError} as `read` */
export async function askConsole<T>(method: 'GET' | 'POST', path: string): Promise<T> {
  const response = await access.fetch(`/api/console${path}`, { method, signal: AbortSignal.timeout(ANSWER_MS) });
  if (!response.ok) throw problemOfResponse(response.status, await response.text());
  return (await response.json()) as T;
}

export function sessionPath(sessionId: string): string {
  return `/sessions/${encodeURIComponent(sessionId)}`;
}

/** What was read, or why it was not. Neither: it is being read. */
export interface ConsoleReading<T> {
  data?: T;
  problem?: string;
  /** The server refuses it for good. */
  isRefused?: boolean;
  /** How often reading has come to an end, with or without success. */
  rounds: number;
  again: () => void;
}

/**
 * Reads a path when it is first shown, when `again` is called, and when the server accepts a new token: once at a time, however
 * slow the server is.
 * @param path null: nothing is read
 * @param since another value: it is read again
 */
export function useConsole<T>(path: string | null, since?: unknown): ConsoleReading<T> {
  const [state, setState] = useState<{ path: string; data?: T; problem?: string; isRefused?: boolean }>();
  /** What is being read, and whether it has to be read again after that. */
  const reading = useRef<{ path: string; isBehind: boolean }>(undefined);
  const [rounds, setRounds] = useState(0);
  const [round, setRound] = useState(0);
  const again = useCallback(() => setRound((number) => number + 1), []);
  useEffect(() => {
    const left = new AbortController();
    access.onAccess(again, left.signal);
    return () => left.abort();
  }, [again]);
  useEffect(() => {
    if (path === null) return;
    if (reading.current?.path === path) {
      reading.current.isBehind = true;
      return;
    }
    const own = { path, isBehind: false };
    reading.current = own;
    const show = (change: (known: { data?: T }) => { data?: T; problem?: string; isRefused?: boolean }) => {
      if (reading.current !== own) return;
      reading.current = undefined;
      setState((known) => ({ ...change(known?.path === path ? known : {}), path }));
      if (own.isBehind) again();
      else setRounds((number) => number + 1);
    };
    read<T>(path).then(
      (data) => show(() => ({ data })),
      // What is known stays.
      (error: unknown) => show((known) => ({ ...known, problem: wordsOf(error), isRefused: isRefusal(error) })),
    );
  }, [path, round, since, again]);
  return { ...(state?.path === path && state), rounds, again };
}

/**
 * Reads again `ms` after every reading, while the page is visible, and when it becomes visible; not what is refused.
 * @param ms null: only when it becomes visible
 */
export function useRepeat({ again, rounds, isRefused = false }: ConsoleReading<unknown>, ms: number | null): void {
  useEffect(() => {
    if (isRefused) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Without a token that is taken it is read once there is one.
    const repeat = () => access.isAsked || again();
    const onChange = () => (document.hidden ? clearTimeout(timer) : repeat());
    if (ms !== null && !document.hidden) timer = setTimeout(repeat, ms);
    document.addEventListener('visibilitychange', onChange);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onChange);
    };
  }, [again, rounds, ms, isRefused]);
}

/** What was read of a list, and what reads its next page; unset: there is none. */
type Pages<T> = ConsoleReading<T[]> & { more?: () => void };

function pageAfter(path: string, cursor: string, value: string): string {
  return `${path}${path.includes('?') ? '&' : '?'}${cursor}=${encodeURIComponent(value)}`;
}

/**
 * The pages of a list with the oldest items first. What is added to the list comes to its last page, so that one is read again.
 * @param since as of `useConsole`
 */
export function useOldestFirst<T>(path: string, cursor: string, since?: unknown): Pages<T> {
  const [known, setKnown] = useState<{ items: T[]; next: string }>();
  const last = useConsole<ListPart<T>>(known === undefined ? path : pageAfter(path, cursor, known.next), since);
  const { data, ...reading } = last;
  const items = data?.items ?? [];
  const next = data?.next ?? null;
  const all = known === undefined ? items : [...known.items, ...items];
  return {
    ...reading,
    ...((data !== undefined || known !== undefined) && { data: all }),
    ...(next !== null && { more: () => setKnown({ items: all, next }) }),
  };
}

/** The pages of a list with the newest items first that were read so far. @param since as of `useConsole` */
export function useNewestFirst<T>(path: string, cursor: 'after' | 'before', since?: unknown): Pages<T> {
  const first = useConsole<ListPart<T>>(path, since);
  const [rest, setRest] = useState<{ after: string | null; items: T[]; next: string | null }>();
  const [problem, setProblem] = useState<string>();
  // The pages after the first one stay while that ends where they begin.
  const known = rest !== undefined && rest.after === first.data?.next ? rest : undefined;
  const next = (known === undefined ? first.data?.next : known.next) ?? null;
  const more = () => {
    if (next === null) return;
    read<ListPart<T>>(pageAfter(path, cursor, next)).then(
      (page) => {
        setProblem(undefined);
        setRest({ after: first.data?.next ?? null, items: [...(known?.items ?? []), ...page.items], next: page.next });
      },
      (error: unknown) => setProblem(wordsOf(error)),
    );
  };
  const said = problem ?? first.problem;
  return {
    again: first.again,
    rounds: first.rounds,
    ...(said !== undefined && { problem: said }),
    ...(first.data && { data: [...first.data.items, ...(known?.items ?? [])] }),
    ...(next !== null && { more }),
  };
}
