import { z } from 'zod';
import { call, type Db, jsonb } from './db.ts';

/** Instruction files by path, relative to the folder of workspaces, each with a stamp that changes with every write. */
type Stamps = Readonly<Record<string, string>>;

/** What a tool finds when it begins. `root` is its session's workspace, relative to the folder of all workspaces. */
export interface InstructionWatch {
  root: string;
  before: Stamps;
}

/** The same afterwards; `over`: the tool has ended, otherwise it may still write. `home`: the user's folder, relative as `root`. */
export interface InstructionChanges extends InstructionWatch {
  after: Stamps;
  over: boolean;
  user_id: string;
  home: string;
}

/** Of the instruction files of a workspace those that tools wrote, also tools that are still running or were lost. */
export async function instructionsOfTools(db: Db, root: string, found: Stamps): Promise<ReadonlySet<string>> {
  return new Set(await call(db, z.array(z.string()), 'instructions_of_tools', [root, jsonb(found)]));
}

/**
 * Stores which instruction files a tool wrote, apart from its outcome. If its session has been erased, queues the removal of its
 * workspace instead.
 */
export async function noteWritten(
  db: Db,
  { sessionId, toolCallId }: { sessionId: string; toolCallId: string },
  changes: InstructionChanges,
): Promise<void> {
  await db.query('SELECT note_written($1, $2, $3)', [sessionId, toolCallId, jsonb(changes)]);
}
