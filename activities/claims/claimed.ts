import type { AgentDefinition } from '../../agent/definition/define.ts';
import type { LoadedStep } from '../../store/steps.ts';
import type { Writer } from './write-until-stored.ts';

/** A claimed step. */
export interface Claimed extends Writer {
  step: number;
  claimed: LoadedStep;
  agent: AgentDefinition;
  /** The step may return `compact`. */
  mayCompact: boolean;
  /** What has to be over before the step is settled, and so before its tools begin. */
  ready: Promise<void>;
}
