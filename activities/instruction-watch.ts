import path from 'node:path';
import { instructionStamps } from '../agent/instructions.ts';
import type { InstructionChanges, InstructionWatch } from '../store/instructions.ts';

/** Sees which instruction files change while a tool runs in a workspace. Reads a few stats. */
export class ToolWatch {
  /** To be stored before the tool runs: after a crash it shows what the tool has changed. */
  readonly watch: InstructionWatch;
  /** Absolute path of the workspace. */
  readonly folder: string;
  private readonly boundary: string;

  /** @param folder below that of all workspaces, `boundary` */
  constructor(folder: string, boundary: string) {
    this.folder = folder;
    this.boundary = boundary;
    this.watch = { root: workspaceName(folder, boundary), before: instructionStamps(folder, boundary) };
  }

  /** What has changed until now. */
  changes(over: boolean): InstructionChanges {
    return { ...this.watch, after: instructionStamps(this.folder, this.boundary), over };
  }
}

/** A workspace's path relative to the folder of all workspaces, which workers may have in different places. */
export function workspaceName(folder: string, boundary: string): string {
  return path.relative(boundary, folder).split(path.sep).join('/');
}
