// The floor: the same answer from a bare model call and two inserts.
import { type ModelMessage, stepCountIs, streamText, tool, type ToolSet } from 'ai';
import type pg from 'pg';
import { z } from 'zod';
import { createModels } from '../../agent/models/models.ts';
import { PROMPT } from './agents.ts';
import { now } from './clock.ts';
import { MODEL } from './names.ts';
import { type Ask, messageOf } from './script.ts';
import { TextTimes } from './text-times.ts';

/** Durations of a bare turn, in milliseconds. */
export interface FloorTurn {
  total: number;
  firstText: number;
  /** The longest time between two texts. */
  longestGap: number;
}

/** A conversation without Perdure. */
export interface FloorSession {
  turn(ask: Ask, padding?: number): Promise<FloorTurn>;
}

const tools: ToolSet = {
  ping: tool({ description: 'Answers pong.', inputSchema: z.object({ output: z.int() }) }) as ToolSet[string],
};

/** Conversations of `streamText` on the same model and database. */
export async function openFloor({ db, modelUrl }: { db: pg.Pool; modelUrl: string }): Promise<() => FloorSession> {
  await db.query('CREATE TABLE bench_floor (id bigserial PRIMARY KEY, role text NOT NULL, text text NOT NULL)');
  const { model } = createModels({ openaiApiKey: 'bench', openaiBaseUrl: modelUrl }).resolve(MODEL);
  const keep = (role: string, text: string) =>
    db.query({ name: 'floor', text: 'INSERT INTO bench_floor (role, text) VALUES ($1, $2)', values: [role, text] });
  return () => {
    const messages: ModelMessage[] = [];
    const turn = async (ask: Ask, padding?: number): Promise<FloorTurn> => {
      const startedAt = now();
      const content = messageOf(ask, padding);
      await keep('user', content);
      messages.push({ role: 'user', content });
      const texts = new TextTimes();
      let text = '';
      for (let more = true; more;) {
        const result = streamText({ model, instructions: PROMPT, messages, tools, stopWhen: stepCountIs(1) });
        for await (const delta of result.textStream) {
          texts.note();
          text += delta;
        }
        messages.push(...(await result.response).messages);
        const calls = await result.toolCalls;
        for (const { toolCallId, toolName } of calls) {
          const output = { type: 'text' as const, value: 'pong' };
          messages.push({ role: 'tool', content: [{ type: 'tool-result', toolCallId, toolName, output }] });
        }
        more = calls.length > 0;
      }
      await keep('assistant', text);
      const firstText = (texts.firstTextAt ?? Number.NaN) - startedAt;
      return { total: now() - startedAt, firstText, longestGap: texts.longestGap };
    };
    return { turn };
  };
}
