import { createHash } from 'node:crypto';
import type { z } from 'zod';
import type { Bus } from '../../bus/bus.ts';
import { snakeCase } from '../../domain/command-table.ts';
import { PerdureError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { InitiativeCommand } from '../../domain/initiatives/initiative-commands.ts';
import { cleanJson } from '../../domain/text.ts';
import { argumentsDigest } from '../../store/arguments-digest.ts';
import type { Db } from '../../store/db.ts';
import {
  applyInitiativeCommand,
  applyInitiativeEdit,
  createInitiative,
  importInitiative,
  type InitiativeOutcome,
  listInitiatives,
  newestWorkSession,
  ownsInitiative,
  readBlocker,
  readDecision,
  readInitiative,
  readInitiativeItem,
  readTask,
  readWorkSession,
  takeTask,
} from '../../store/initiatives.ts';
import {
  blockerBody,
  bypassBody,
  createInitiativeBody,
  decisionBody,
  endSessionBody,
  initiativeStateBody,
  resolveBody,
  reviewBody,
  startSessionBody,
  taskReportBody,
  workSessionBody,
} from '../../wire/initiative-requests.ts';
import type {
  Initiative,
  InitiativeBlocker,
  InitiativeDecision,
  InitiativeResume,
  InitiativeTask,
  InitiativeView,
  PlanningReport,
  WorkSession,
} from '../../wire/initiative-views.ts';
import { InvalidInputError, parseInput } from '../../wire/input.ts';
import { idempotencyKey as keySchema } from '../../wire/requests.ts';
import { requestedWorkspace } from '../catalog.ts';
import { filesOfArchive } from '../planning/files-of-archive.ts';
import { planningArchive } from '../planning/planning-files.ts';
import { readPlanning } from '../planning/planning-import.ts';
import { Faults, type RawFile } from '../planning/text-files.ts';
import type { ListPage } from '../reads.ts';
import { editUpdates } from '../state-file/edit-updates.ts';
import { fileFaults } from '../state-file/file-faults.ts';
import { lineField, parseState } from '../state-file/parse-state.ts';
import { renderState, stateOf } from '../state-file/state-file.ts';
import type { InitiativeWaker } from './initiative-waker.ts';
import { initiativeNotFound, refusedEdit, refusedInitiative } from './refused-initiative.ts';
import { initiativeFolder, mismatchesOf, resumeOf } from './resume.ts';

interface Options {
  /** A repeat with the same key changes nothing and gets the same outcome; with other arguments it is `KeyReused`. */
  idempotencyKey?: string | undefined;
  /** The key alone tells a repeat: what the caller adds to the arguments may differ then. */
  keyAlone?: boolean;
}

/** STATE.md, and the version of the initiative that it shows. */
export interface StateDocument {
  text: string;
  version: number;
}

/**
 * The API of initiatives. For all users but its owner an initiative does not exist: every method throws `InitiativeNotFound`.
 */
export class Initiatives {
  private readonly deps: {
    db: Db;
    readDb: Db;
    bus: Bus;
    waker: InitiativeWaker;
    /** Absolute path of the folder of all workspaces; undefined: it is not known here, and nothing is checked there. */
    workspaces: string | undefined;
  };

  constructor(deps: Initiatives['deps']) {
    this.deps = deps;
  }

  /** @throws {PerdureError} `BadRequest`, `ProjectNotFound` */
  async create(user: string, given: z.input<typeof createInitiativeBody>, options: Options = {}): Promise<Initiative> {
    const input = cleanJson(parseInput(createInitiativeBody, given)) as z.output<typeof createInitiativeBody>;
    const key = parseKey(options);
    const stored = {
      ...input,
      workspace_root: requestedWorkspace(this.deps.workspaces, user, input.workspace_root),
      decisions: input.decisions?.map((decision) => ({ ...decision, decision_id: newId('dec') })),
      phases: input.phases.map(({ name, plans }) => ({
        name,
        plans: plans.map(({ name: plan, body, tasks }) => ({
          ...{ name: plan, body },
          tasks: tasks.map((task) => ({ name: task.name, wave: task.wave, task_id: newId('tsk') })),
        })),
      })),
    };
    const digest = digestOf({ create: input }, options);
    const target = { initiativeId: newId('ini'), userId: user, commandId: 'create', digest };
    const made = await createInitiative(this.deps.db, target, stored, key ?? null);
    this.deps.waker.tell({ user, initiativeId: made });
    return this.item(user, made);
  }

  /**
   * Creates an initiative from the folder `.planning/`: STATE.md, plans, summaries, decisions and resolved blockers. Nothing is stored
   * if a line could not be read.
   * @param planning the files, or a gzipped tar file of them
   * @throws {InvalidInputError} naming every line that could not be read @throws {PerdureError} `TooLarge`
   */
  async importPlanning(
    user: string,
    planning: Uint8Array | readonly RawFile[],
    options: Options = {},
  ): Promise<Initiative & { report: PlanningReport }> {
    const key = parseKey(options);
    const { input, report, files } = await readFiles(planning);
    const digest = digestOf({ import: fingerprintsOf(files) }, options);
    const target = { initiativeId: newId('ini'), userId: user, commandId: 'import', digest };
    const made = await importInitiative(this.deps.db, target, cleanJson(input) as object, key ?? null);
    this.deps.waker.tell({ user, initiativeId: made });
    return { ...(await this.item(user, made)), report };
  }

  /** What an import would read. Stores nothing. @throws as `importPlanning` */
  async checkPlanning(planning: Uint8Array | readonly RawFile[]): Promise<PlanningReport> {
    return (await readFiles(planning)).report;
  }

  /** Own initiatives, newest first. */
  async list(
    user: string,
    { after, limit = 50 }: { after?: string | undefined; limit?: number } = {},
  ): Promise<ListPage<Initiative>> {
    const items = await listInitiatives(this.deps.readDb, user, after ?? null, limit + 1);
    const page = items.slice(0, limit);
    return { items: page, next: items.length > limit ? (page.at(-1)?.initiative.initiative_id ?? null) : null };
  }

  /** The initiative with all that belongs to it. */
  async get(user: string, id: string): Promise<InitiativeView> {
    const found = id.includes('\0') ? undefined : await readInitiative(this.deps.readDb, user, id);
    if (found === undefined) throw initiativeNotFound();
    return found;
  }

  /** Only checks that the user has the initiative. */
  async requireOwn(user: string, id: string): Promise<void> {
    if (id.includes('\0') || !(await ownsInitiative(this.deps.readDb, user, id))) throw initiativeNotFound();
  }

  /**
   * The folder of a session that joins an initiative by `metadata.initiative_id`; null: it joins none, or has one of its own.
   * @throws {PerdureError} `InitiativeNotFound`, `BadRequest`
   */
  async folderToJoin(
    user: string,
    { initiative_id: id }: Readonly<Record<string, unknown>>,
    projectId: string | null,
  ): Promise<string | null> {
    if (id === undefined || id === null) return null;
    if (typeof id !== 'string')
      throw new InvalidInputError([{ field: 'metadata.initiative_id', expected: "an initiative's id" }]);
    const view = await this.get(user, id);
    const { workspaces } = this.deps;
    return workspaces === undefined || projectId !== null ? null : initiativeFolder(workspaces, view);
  }

  /** @throws {PerdureError} `DecisionNotFound` */
  async decision(user: string, id: string, decisionId: string): Promise<InitiativeDecision> {
    await this.requireOwn(user, id);
    const found = decisionId.includes('\0') ? undefined : await readDecision(this.deps.readDb, id, decisionId);
    if (found === undefined) throw new PerdureError('DecisionNotFound', 'there is no such decision in this initiative');
    return found;
  }

  /** The export: a gzipped tar file of the folder `.planning/`. */
  async planning(user: string, id: string): Promise<Buffer> {
    return planningArchive(await this.get(user, id));
  }

  /** STATE.md. */
  async stateDocument(user: string, id: string): Promise<StateDocument> {
    const view = await this.get(user, id);
    return { text: renderState(stateOf(view)), version: view.initiative.version };
  }

  /**
   * Carries out what an edited STATE.md changes, all or nothing.
   * @param versions the versions that the edit may be of; `*`: any
   * @throws {PerdureError} `StaleState`, `BadRequest` naming the lines, and those of the updates
   */
  async editState(user: string, id: string, text: string, versions: readonly number[] | '*'): Promise<StateDocument> {
    const view = await this.get(user, id);
    const { version } = view.initiative;
    if (versions !== '*' && !versions.includes(version)) throw refusedInitiative({ ok: false, code: 'StaleState' });
    const updates = editUpdates(stateOf(view), parseState(text));
    refuseOutside(updates);
    if (updates.length > 0) {
      const target = { initiativeId: id, userId: user, commandId: newId('cmd') };
      const commands = updates.map(({ command, args }) => ({ command, args: cleanJson(args) as typeof args }));
      const outcome = await applyInitiativeEdit(this.deps.db, target, version, commands);
      if (!outcome.ok) throw refusedEdit(outcome, updates);
      this.tell(user, id);
    }
    return this.stateDocument(user, id);
  }

  /** Changes position, next action and resume context. @throws {PerdureError} `BadRequest`, `TaskAssigned` */
  async updateState(
    user: string,
    id: string,
    given: z.input<typeof initiativeStateBody>,
    options?: Options,
  ): Promise<Initiative> {
    const args = parseInput(initiativeStateBody, given);
    const faults = fileFaults(args.resume_context?.files_modified_this_session);
    if (faults.length > 0) throw new InvalidInputError(faults);
    await this.apply({ user, id, name: 'updateState' }, args, options);
    return this.item(user, id);
  }

  async addDecision(
    user: string,
    id: string,
    given: z.input<typeof decisionBody>,
    options?: Options,
  ): Promise<{ decision: InitiativeDecision }> {
    const args = parseInput(decisionBody, given);
    const made = { decision_id: newId('dec') };
    const { decision_id } = await this.apply({ user, id, name: 'addDecision' }, args, options, made);
    return { decision: await this.row(readDecision, id, decision_id) };
  }

  /** @throws {PerdureError} `TaskNotFound`, `InvalidTransition` for a completed task */
  addBlocker(user: string, id: string, given: z.input<typeof blockerBody>, options?: Options) {
    return this.blocker({ user, id, name: 'addBlocker' }, parseInput(blockerBody, given), options);
  }

  /** @throws {PerdureError} `BlockerNotFound`, `BlockerResolved`, `BadRequest` */
  bypassBlocker(user: string, id: string, blocker: string, given: z.input<typeof bypassBody>, options?: Options) {
    const { workaround, workaround_tasks = [] } = parseInput(bypassBody, given);
    const added = workaround_tasks.map((name) => ({ name, task_id: newId('tsk') }));
    const args = { id: blocker, workaround, workaround_tasks };
    return this.blocker({ user, id, name: 'bypassBlocker' }, args, options, { workaround_tasks: added });
  }

  /** @throws {PerdureError} `BlockerNotFound`, `BlockerResolved` */
  resolveBlocker(user: string, id: string, blocker: string, given: z.input<typeof resolveBody>, options?: Options) {
    return this.blocker(
      { user, id, name: 'resolveBlocker' },
      { ...parseInput(resolveBody, given), id: blocker },
      options,
    );
  }

  /**
   * Resumes, and then starts a work session: none is started in a workspace that cannot be checked.
   * @throws {PerdureError} `SessionNotFound`, `InvalidTransition` for a chat session that is over, `WorkspaceNotUsable`
   */
  async startSession(
    user: string,
    id: string,
    given: z.input<typeof startSessionBody>,
    options?: Options,
  ): Promise<{ session: WorkSession; resume: InitiativeResume }> {
    const args = parseInput(startSessionBody, given);
    const resume = await this.resume(user, id);
    const { session } = await this.workSession({ user, id, name: 'startSession' }, args, options);
    return { session, resume };
  }

  /**
   * For an agent that takes no tasks: resumes, and begins the work session of its chat session unless one is active.
   * @throws {PerdureError} `SessionNotFound`, `InvalidTransition` for a chat session that is over, `WorkspaceNotUsable`
   */
  async attend(
    user: string,
    id: string,
    { agent, sessionId }: { agent: string; sessionId: string },
    options?: Options,
  ): Promise<InitiativeResume> {
    const resume = await this.resume(user, id);
    const args = { agent, session_id: sessionId, attends: true };
    await this.apply({ user, id, name: 'startSession' }, args, options);
    return resume;
  }

  /**
   * Checks that the workspace is as resume_context says, and returns what is needed to go on. What is missing is flagged: until
   * `review`, nobody is given a task.
   * @throws {PerdureError} `WorkspaceNotUsable`
   */
  async resume(user: string, id: string): Promise<InitiativeResume> {
    for (;;) {
      const view = await this.get(user, id);
      const mismatches = await mismatchesOf(this.deps.workspaces, view);
      if (mismatches.length === 0) return resumeOf(view);
      const args = { mismatches, resume_context: view.initiative.resume_context };
      const target = { initiativeId: id, userId: user, commandId: `flag_review:${newId('cmd')}` };
      const outcome = await applyInitiativeCommand(this.deps.db, target, { command: 'flag_review', args });
      // The context has changed meanwhile.
      if (outcome.code === 'StaleState') continue;
      if (!outcome.ok) throw refusedInitiative(outcome);
      if (outcome.nothing === undefined) this.tell(user, id);
      return resumeOf(await this.get(user, id));
    }
  }

  /** Accepts what a resume has found missing, until resume_context changes; with `seen`, only what that lists. */
  async review(user: string, id: string, given: z.input<typeof reviewBody>, options?: Options): Promise<Initiative> {
    await this.apply({ user, id, name: 'review' }, parseInput(reviewBody, given), options);
    return this.item(user, id);
  }

  /** @throws {PerdureError} `WorkSessionNotFound`, `InvalidTransition` for one that is over */
  endSession(user: string, id: string, session: string, given: z.input<typeof endSessionBody>, options?: Options) {
    const args = { ...parseInput(endSessionBody, given), id: session };
    return this.workSession({ user, id, name: 'endSession' }, args, options);
  }

  /**
   * Gives the next task that nobody holds, of the position's wave, to a work session; undefined: there is none.
   * @throws {PerdureError} `WorkSessionNotFound`, `InvalidTransition` for a work session that is over, `ReviewRequired`
   */
  async assignTask(
    user: string,
    id: string,
    given: z.input<typeof workSessionBody>,
    options?: Options,
  ): Promise<InitiativeTask | undefined> {
    const { task_id } = await this.apply({ user, id, name: 'assignTask' }, parseInput(workSessionBody, given), options);
    return task_id === undefined ? undefined : this.row(readTask, id, task_id);
  }

  /**
   * For an agent: gives a task to the work session of its chat session, the next one, or one to start. Unless one is active, the
   * initiative resumes, and a work session begins in the transaction that gives the task, if there is one.
   * @param toStart the task to start; undefined: the one that it holds and has not started, or else the next
   * @param options the key alone tells a repeat
   * @returns undefined: there is no task
   * @throws {PerdureError} as `startTask`; `SessionNotFound`, `WorkspaceNotUsable`
   */
  async takeTask(
    user: string,
    id: string,
    agent: { agent: string; sessionId: string },
    toStart: string | undefined,
    options: Pick<Options, 'idempotencyKey'> = {},
  ): Promise<{ task: InitiativeTask; session: WorkSession } | undefined> {
    const { initiativeId, by, task } = cleanJson({ initiativeId: id, by: agent, task: toStart }) as {
      initiativeId: string;
      by: typeof agent;
      task?: string;
    };
    const own = { userId: user, initiativeId };
    const newest = await newestWorkSession(this.deps.db, { ...own, sessionId: by.sessionId });
    if (newest?.is_active !== true) await this.resume(user, initiativeId);
    const name = task === undefined ? 'assignTask' : 'startTask';
    const args = task === undefined ? { unstarted: true } : { task_id: task };
    const key = parseKey(options) ?? newId('cmd');
    const command = snakeCase(name);
    const target = { ...own, commandId: `${command}:${key}` };
    const outcome = await takeTask(this.deps.db, target, by, { command, args });
    if (!outcome.ok) throw refusedInitiative(outcome);
    if (outcome.nothing !== undefined) return undefined;
    this.tell(user, id, { name, id: key });
    const [taken, session] = await Promise.all([
      this.row(readTask, id, outcome.task_id),
      this.row(readWorkSession, id, outcome.work_session),
    ]);
    return { task: taken, session };
  }

  /** @throws {PerdureError} `TaskNotFound`, `TaskAssigned`, `InvalidTransition`, `WorkSessionNotFound`, `ReviewRequired` */
  startTask(user: string, id: string, task: string, given: z.input<typeof workSessionBody>, options?: Options) {
    return this.task(
      { user, id, name: 'startTask' },
      { ...parseInput(workSessionBody, given), task_id: task },
      options,
    );
  }

  /** @throws {PerdureError} `TaskNotFound`, `TaskAssigned`, `InvalidTransition` */
  reportProgress(user: string, id: string, task: string, given: z.input<typeof taskReportBody>, options?: Options) {
    return this.task(
      { user, id, name: 'reportProgress' },
      { ...parseInput(taskReportBody, given), task_id: task },
      options,
    );
  }

  /** @throws {PerdureError} `TaskNotFound`, `TaskAssigned`, `InvalidTransition` */
  completeTask(user: string, id: string, task: string, given: z.input<typeof taskReportBody>, options?: Options) {
    return this.task(
      { user, id, name: 'completeTask' },
      { ...parseInput(taskReportBody, given), task_id: task },
      options,
    );
  }

  private async blocker(
    command: Command,
    args: object,
    options?: Options,
    made?: object,
  ): Promise<{ blocker: InitiativeBlocker }> {
    return { blocker: await this.row(readBlocker, command.id, (await this.apply(command, args, options, made)).id) };
  }

  private async workSession(command: Command, args: object, options?: Options): Promise<{ session: WorkSession }> {
    return { session: await this.row(readWorkSession, command.id, (await this.apply(command, args, options)).id) };
  }

  private async task(command: Command, args: object, options?: Options): Promise<InitiativeTask> {
    return this.row(readTask, command.id, (await this.apply(command, args, options)).task_id);
  }

  /** @param made arguments with new ids, which a repeat has other ones of */
  private async apply(
    { user, id, name }: Command,
    args: object,
    options: Options = {},
    made: object = {},
  ): Promise<InitiativeOutcome> {
    const key = parseKey(options) ?? newId('cmd');
    const command = snakeCase(name);
    const cleaned = cleanJson({ args: { ...args, ...made }, id }) as { args: Record<string, unknown>; id: string };
    const digest = digestOf(args, options);
    const target = { initiativeId: cleaned.id, userId: user, commandId: `${command}:${key}`, digest };
    const outcome = await applyInitiativeCommand(this.deps.db, target, { command, args: cleaned.args });
    if (!outcome.ok) throw refusedInitiative(outcome);
    if (outcome.nothing === undefined) this.tell(user, id, { name, id: key });
    return outcome;
  }

  /** The initiative without what belongs to it. */
  private async item(user: string, id: string): Promise<Initiative> {
    const found = await readInitiativeItem(this.deps.db, user, id);
    if (found === undefined) throw initiativeNotFound();
    return found;
  }

  /** Tells followers and the workflow of a change. */
  private tell(user: string, initiativeId: string, command?: { name: InitiativeCommand; id: string }): void {
    this.deps.bus.publish({ session: initiativeId, kind: 'status' });
    this.deps.waker.tell({ user, initiativeId, ...(command && { command }) });
  }

  /** A row after a command. It is gone only if the user is being erased. */
  private async row<T>(
    read: (db: Db, id: string, key: string) => Promise<T | undefined>,
    id: string,
    key: string | null | undefined,
  ): Promise<T> {
    const found = await read(this.deps.db, id, key ?? '');
    if (found === undefined) throw initiativeNotFound();
    return found;
  }
}

async function readFiles(planning: Uint8Array | readonly RawFile[]) {
  const faults = new Faults();
  const files = planning instanceof Uint8Array ? await filesOfArchive(planning, faults) : planning;
  return { ...readPlanning(files, faults), files };
}

/** The files of an import, in any order, by their contents. */
function fingerprintsOf(files: readonly RawFile[]): Record<string, string> {
  return Object.fromEntries(
    files.map(({ path, bytes }) => [path, createHash('sha256').update(bytes).digest('base64url')]),
  );
}

/** What is compared under the same key. */
function digestOf(given: object, { keyAlone }: Options): Buffer | undefined {
  return keyAlone === true ? undefined : argumentsDigest(given);
}

interface Command {
  user: string;
  id: string;
  name: InitiativeCommand;
}

/** @throws {InvalidInputError} naming the lines of an edit that lists files outside of the workspace */
function refuseOutside(updates: ReturnType<typeof editUpdates>): void {
  const faults = updates.flatMap(({ line, args }) => {
    const context = args['resume_context'] as Initiative['initiative']['resume_context'] | undefined;
    return fileFaults(context?.files_modified_this_session).map(({ field, expected }) => ({
      field: lineField(line),
      expected: `${field}: ${expected}`,
    }));
  });
  if (faults.length > 0) throw new InvalidInputError(faults);
}

function parseKey({ idempotencyKey }: Options): string | undefined {
  return parseInput(keySchema.optional(), idempotencyKey, ['Idempotency-Key']);
}
