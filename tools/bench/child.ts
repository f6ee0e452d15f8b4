// A child process of the benchmark and the calls that it serves. It ends with its parent, because the IPC channel
// closes with either.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

type Call = { id: number; method: string; args: unknown };
type Reply = { id: number; result?: unknown; error?: string };

/** The methods of a child process. */
export type Methods = Record<string, (args: never) => unknown>;

/** A running child process. */
export interface Child {
  pid: number;
  call<Result>(method: string, args?: unknown): Promise<Result>;
  stop(): Promise<void>;
}

/** Starts `tools/bench/<name>.ts` and waits until it serves. */
export async function startChild(name: string, env: NodeJS.ProcessEnv = {}): Promise<Child> {
  const child = spawn(process.execPath, [fileURLToPath(new URL(`${name}.ts`, import.meta.url))], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const pending = new Map<number, PromiseWithResolvers<unknown>>();
  child.on('message', (reply: Reply) => settle(pending, reply));
  child.once('exit', (code) => {
    for (const { reject } of pending.values()) reject(new Error(`${name} ended (exit code ${code})`));
    pending.clear();
  });
  let calls = 0;
  const call = <Result>(method: string, args?: unknown): Promise<Result> => {
    const waiting = Promise.withResolvers<unknown>();
    pending.set(++calls, waiting);
    child.send({ id: calls, method, args } satisfies Call);
    return waiting.promise as Promise<Result>;
  };
  await call('ready');
  return { pid: child.pid!, call, stop: () => stop(child) };
}

function settle(pending: Map<number, PromiseWithResolvers<unknown>>, { id, result, error }: Reply): void {
  const waiting = pending.get(id);
  pending.delete(id);
  if (error === undefined) waiting?.resolve(result);
  else waiting?.reject(new Error(error));
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.disconnect();
  await once(child, 'exit');
}

/** In a child: serves its parent's calls until the parent exits. */
export function serveParent(methods: Methods): void {
  const answer = async ({ id, method, args }: Call): Promise<Reply> => {
    if (method === 'ready') return { id };
    try {
      return { id, result: await methods[method]!(args as never) };
    } catch (error) {
      return { id, error: String((error as Error).stack) };
    }
  };
  process.on('message', (call: Call) => void answer(call).then((reply) => process.connected && process.send!(reply)));
  process.once('disconnect', () => process.exit());
}
