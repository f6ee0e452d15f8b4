// Perdure's client as the benchmark uses it, in the main process and in the reader.
import { PerdureClient } from '../../client/client.ts';
import type { Initiatives } from '../../client/initiatives/initiatives.ts';
import { temporalClient } from '../../client/send/temporal-client.ts';
import { parseConfig, requireDatabase } from '../../config/config.ts';
import { temporalConnectConfig } from '../../config/temporal.ts';
import { PerdureError } from '../../domain/errors.ts';
import { AGENT } from './agents.ts';
import { now } from './clock.ts';
import { USER } from './names.ts';
import { TextTimes } from './text-times.ts';

/** Observations of an answer; times of `now`. */
export interface Followed {
  /** Undefined: the answer had no text. */
  firstTextAt: number | undefined;
  endAt: number;
  /** The longest time between two readings that brought text, in milliseconds. */
  longestGap: number;
  /** Type of the last chunk. */
  last: string;
}

/** One user of one agent. */
export interface BenchClient {
  temporal: ReturnType<typeof temporalClient>;
  initiatives: Initiatives;
  /** @param agent default: the one with a trivial tool */
  open(agent?: string): Promise<string>;
  /** Returns the run's number once the message is accepted. */
  submit(sessionId: string, text: string): Promise<number>;
  /** Reads an answer to its end. */
  follow(sessionId: string, runSeq: number): Promise<Followed>;
  abort(sessionId: string): Promise<unknown>;
  /** Allows a tool call once. */
  approve(sessionId: string, toolCallId: string): Promise<unknown>;
  /** Resolves with the answer, which may be a refusal. */
  publish(sessionId: string): Promise<unknown>;
  closeSession(sessionId: string): Promise<unknown>;
  close(): Promise<void>;
}

export function connectClient(env: NodeJS.ProcessEnv): BenchClient {
  const config = requireDatabase(parseConfig(env));
  const temporal = temporalClient(temporalConnectConfig(config));
  const { databaseUrl: database, directDatabaseUrl, preparedStatements, maxMessageBytes } = config;
  const log = { warn: (_fields: object, message: string) => console.error(message) };
  const client = new PerdureClient({ database, directDatabaseUrl, preparedStatements, temporal, maxMessageBytes, log });
  return {
    temporal,
    initiatives: client.initiatives,
    open: async (agent = AGENT) => (await client.openSession(USER, { agent })).session.session_id,
    submit: async (sessionId, text) => (await client.submit(USER, sessionId, { text })).run_seq,
    follow: async (sessionId, runSeq) => {
      const texts = new TextTimes();
      let last = 'none';
      for await (const chunks of client.followInBatches(USER, sessionId, runSeq)) {
        if (chunks.some((chunk) => chunk.type === 'text-delta')) texts.note();
        last = chunks.at(-1)?.type ?? last;
      }
      return { firstTextAt: texts.firstTextAt, longestGap: texts.longestGap, endAt: now(), last };
    },
    approve: (sessionId, tool_call_id) => client.commands.answer(USER, sessionId, { tool_call_id, decision: 'once' }),
    abort: (sessionId) => client.commands.abort(USER, sessionId),
    publish: (sessionId) =>
      client.commands.publish(USER, sessionId).catch((error: unknown) => {
        if (!(error instanceof PerdureError) || error.code !== 'InvalidTransition') throw error;
      }),
    closeSession: (sessionId) => client.commands.close(USER, sessionId),
    close: async () => {
      await client.end();
      await temporal.connection.close();
    },
  };
}
