import type { Bus } from '../../bus/bus.ts';
import type { ChildRun } from '../../domain/command-table.ts';
import { PerdureError } from '../../domain/errors.ts';
import { cleanJson, cleanText } from '../../domain/text.ts';
import type { Db } from '../../store/db.ts';
import { type AnsweredCalls, type GivenOutput, giveOutput, readAnsweredCalls } from '../../store/permissions.ts';
import { findSession, type OwnedSession } from '../../store/sessions.ts';
import { InvalidInputError } from '../../wire/input.ts';
import { messageNotFound, refusalError, sessionNotFound } from '../refusal-errors.ts';
import type { Commands } from './commands.ts';
import type { Submission } from './submission.ts';

/** What a page has added to a tool call of an answer: the response to an approval, or the outcome that it made itself. */
export type CallResponse = { tool_call_id: string } & (
  | { approved: boolean; reason?: string | undefined }
  | { output: unknown }
  | { error: string }
);

/** An outcome that cannot be taken: the error is thrown if the call waits for it. */
export interface RefusedResponse {
  tool_call_id: string;
  refused: PerdureError;
}

/** A call that the page shows without an outcome, and for which it has nothing new. */
export interface OpenCall {
  tool_call_id: string;
  is_open: true;
}

type Reply = CallResponse | RefusedResponse;
type Call = AnsweredCalls['calls'][number];

/**
 * The run that goes on after an answer, the tool call from which on its stream is new to the page, and the calls that the page shows
 * with an outcome.
 */
export interface Responded {
  session_id: string;
  run_seq: number;
  after: string;
  given: string[];
}

/** What goes on after an output: the run of the answer `message_id`; if the call was one of a session below, `child` names it. */
export interface OutputTaken {
  message_id: string;
  run_seq: number | null;
  child: ChildRun | null;
}

interface Deps {
  db: Db;
  bus: Bus;
  commands: Commands;
  submission: Submission;
}

/** Whose session, by its id or an alias. */
interface Place {
  user: string;
  session: string;
}

/** Answers tool calls, and gives the outcomes of those that pages carry out. */
export class CallAnswers {
  private readonly deps: Deps;

  constructor(deps: Deps) {
    this.deps = deps;
  }

  /** @throws {PerdureError} see `PerdureClient.respond` */
  async respond(place: Place, answerId: string, shown: readonly (Reply | OpenCall)[]): Promise<Responded> {
    const session = await findSession(this.deps.db, place.user, place.session);
    if (session === undefined) throw sessionNotFound();
    const read = () => readAnsweredCalls(this.deps.db, place.user, session.session_id, answerId);
    const found = await read();
    if (found === undefined) throw messageNotFound();
    const calls = new Map(found.calls.map((call) => [call.tool_call_id, call]));
    const known = shown.filter((each): each is Reply => !('is_open' in each) && calls.has(each.tool_call_id));
    const news = known.filter((response) => isNews(calls.get(response.tool_call_id), response));
    for (const response of news) await this.take({ ...place, session: session.session_id }, response, read);
    // A stream of its end would look like any other to the AI SDK, which would send the same after it, again and again.
    if (known.length > 0 && found.is_aborted) {
      throw refusalError({ code: 'NotWaiting', cause: 'its turn was aborted' });
    }
    // Or what was answered like this before, and its outcome came or is yet to come.
    const newest =
      news[0] ??
      known.findLast(({ tool_call_id: id }) => found.is_open || calls.get(id)?.tool_state.startsWith('output-'));
    if (newest === undefined) {
      const expected = 'a response to a tool call that waits for one';
      throw new InvalidInputError([{ field: 'parts', expected }]);
    }
    const given = known.flatMap((each) => ('approved' in each ? [] : [each.tool_call_id]));
    return { session_id: session.session_id, run_seq: found.run_seq, after: newFrom(found, shown, newest), given };
  }

  /** @throws {PerdureError} see `PerdureClient.giveOutput` */
  async giveOutput(
    { user, session: id }: Place,
    toolCallId: string,
    given: { output: unknown } | { error: string },
  ): Promise<OutputTaken> {
    const { db } = this.deps;
    const session = await findSession(db, user, id);
    if (session === undefined) throw sessionNotFound();
    const call = { userId: user, sessionId: session.session_id, toolCallId: cleanText(toolCallId) };
    const taken = await giveOutput(db, call, cleanJson(given) as typeof given);
    if ('code' in taken) throw refusalError(taken);
    const { session_id: calling, run_seq, message_id, user_message_id } = taken;
    const isOwn = calling === session.session_id;
    if (!taken.repeated)
      this.goOn({ session: isOwn ? session : await findSession(db, user, calling), user, toolCallId }, taken);
    const child = isOwn ? null : { session_id: calling, run_seq, message_id: user_message_id };
    return { message_id, run_seq: isOwn ? run_seq : null, child };
  }

  /** Tells everybody that a run goes on with an output. Undefined: its session has been erased meanwhile. */
  private goOn(
    { session, user, toolCallId }: { session: OwnedSession | undefined; user: string; toolCallId: string },
    { session_id, above, run_seq, user_message_id: message_id, model }: GivenOutput,
  ): void {
    const { bus, submission } = this.deps;
    bus.publish({ session: session_id, run: run_seq, kind: 'answered' });
    for (const each of [session_id, ...above]) bus.publish({ session: each, kind: 'status' });
    if (session !== undefined)
      submission.goOn({ ...session, user_id: user }, { run_seq, message_id, model }, toolCallId);
  }

  private async take(place: Place, response: Reply, read: () => Promise<AnsweredCalls | undefined>): Promise<void> {
    if ('refused' in response) throw response.refused;
    const { tool_call_id, ...given } = response;
    if (!('approved' in given)) {
      await this.giveOutput(place, tool_call_id, given);
      return;
    }
    const decision = given.approved ? 'once' : 'reject';
    // Without a key: the decision that was made is answered as the first time, also with another reason.
    const answer = { tool_call_id, decision, reason: given.reason } as const;
    try {
      await this.deps.commands.answer(place.user, place.session, answer);
    } catch (error) {
      // Another tab may have allowed it meanwhile, for longer.
      const isDecided = error instanceof PerdureError && error.code === 'NotWaiting';
      const call = isDecided ? (await read())?.calls.find((each) => each.tool_call_id === tool_call_id) : undefined;
      if (call?.approved !== given.approved) throw error;
    }
  }
}

/** What is not known yet: a page sends all calls of its message, also those that were settled long ago. */
function isNews(call: Call | undefined, response: Reply): boolean {
  return 'approved' in response ? call?.approved !== response.approved : call?.waits_for === 'output';
}

/**
 * The call from which on outcomes are new to the page: `newest`, to which it responds, or an earlier one that it shows as open. That
 * has ended if the page has lost the stream meanwhile, or if another page has answered.
 */
function newFrom({ calls }: AnsweredCalls, shown: readonly (Reply | OpenCall)[], newest: Reply): string {
  const shownAs = new Map(shown.map((each) => [each.tool_call_id, each]));
  // Earlier steps have ended for the page, too.
  const step = calls.findLast(({ tool_call_id: id }) => shownAs.has(id))?.step;
  const first = calls.find(({ tool_call_id: id, step: of }) => {
    const part = of === step ? shownAs.get(id) : undefined;
    return part !== undefined && (part === newest || 'is_open' in part || 'approved' in part);
  });
  return (first ?? newest).tool_call_id;
}
