import path from 'node:path';
import { instructionStamps } from '../../agent/prompt/instructions.ts';
import type { InstructionChanges, InstructionWatch } from '../../store/instructions.ts';
import { userFolder } from '../../workspaces/paths.ts';

/** Sees which instruction files change while a tool runs in a workspace. Reads a few stats. */
export class ToolWatch {
  /** To be stored before the tool runs: after a crash it shows what the tool has changed. */
  readonly watch: InstructionWatch;
  /** Absolute path of the workspace. */
  readonly folder: string;
  private readonly boundary: string;
  private readonly userId: string;

  /** @param folder of this user, below that of all workspaces, `boundary` */
  constructor(folder: string, boundary: string, userId: string) {
    this.folder = folder;
    this.boundary = boundary;
    this.userId = userId;
    this.watch = { root: workspaceName(folder, boundary), before: instructionStamps(folder, boundary) };
  }

  /** What has changed until now. */
  changes(over: boolean): InstructionChanges {
    const { watch, userId: user_id } = this;
    const after = instructionStamps(this.folder, this.boundary);
    return { ...watch, after, over, user_id, home: userFolder('', user_id) };
  }
}

/** A workspace's path relative to the folder of all workspaces, which workers may have in different places. */
export function workspaceName(folder: string, boundary: string): string {
  return path.relative(boundary, folder).split(path.sep).join('/');
}
