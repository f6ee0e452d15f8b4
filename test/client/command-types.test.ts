// What the compiler accepts of the client's commands, checked by `npm run check`. Nothing here is executed.
import { expectTypeOf, it } from 'vitest';
import type { CommandOptions, Commands, SessionView } from '../../client/index.ts';
import type { CommandName, Phase } from '../../domain/index.ts';

/** The input of a command, whether it can be left out or not. */
type InputOf<Name extends CommandName> = Omit<NonNullable<Parameters<Commands[Name]>[2]>, keyof CommandOptions>;
type OutcomeOf<Name extends CommandName> = Awaited<ReturnType<Commands[Name]>>;
type Mark = { phase: Phase; project_id: string | null; event_seq: number };

declare const commands: Commands;

it('H5 every command is of a user and a session', () => {
  expectTypeOf<keyof Commands>().toEqualTypeOf<CommandName>();
  type Begins = {
    [Name in CommandName]: Parameters<Commands[Name]> extends [string, string, ...unknown[]] ? true : Name;
  };
  expectTypeOf<Begins[CommandName]>().toEqualTypeOf<true>();
});

it('H5 commands take the arguments of their entries in the table', () => {
  expectTypeOf<Parameters<Commands['publish']>[2]>().branded.toEqualTypeOf<CommandOptions | undefined>();
  expectTypeOf<InputOf<'openExisting'>>().toEqualTypeOf<{ project_id: string }>();
  expectTypeOf<InputOf<'close'>>().branded.toEqualTypeOf<{ abort?: boolean | undefined }>();
  expectTypeOf<InputOf<'rewind'>>().branded.toEqualTypeOf<{ message_id: string; abort?: boolean | undefined }>();
  expectTypeOf<InputOf<'cancel'>>().branded.toEqualTypeOf<{
    reason?: string | null | undefined;
    message_id?: string | null | undefined;
  }>();
  expectTypeOf<InputOf<'answer'>>().branded.toEqualTypeOf<{
    tool_call_id: string;
    decision: 'once' | 'session' | 'always' | 'reject';
    reason?: string | null | undefined;
  }>();
});

it('H5 commands return the session’s state with their outcome, and branch a session', () => {
  expectTypeOf<OutcomeOf<'publish'>>().branded.toEqualTypeOf<Mark>();
  expectTypeOf<OutcomeOf<CommandName>>().not.toBeAny();
  expectTypeOf<OutcomeOf<'cancel'>>().toExtend<
    Mark & { cancelled: boolean; aborted: boolean; run_seq: number | null }
  >();
  expectTypeOf<OutcomeOf<'cancelQueued'>['run_seq']>().toEqualTypeOf<number>();
  expectTypeOf<OutcomeOf<'branch'>>().toEqualTypeOf<SessionView>();
});

it('H5 arguments that are unknown, missing or of another type are refused', () => {
  const refused = () => {
    // @ts-expect-error: without a session
    void commands.publish('ada');
    // @ts-expect-error: without the project
    void commands.openExisting('ada', 'ses_1');
    // @ts-expect-error: without the message
    void commands.rewind('ada', 'ses_1', { abort: true });
    // @ts-expect-error: a text is no flag
    void commands.close('ada', 'ses_1', { abort: 'yes' });
    // @ts-expect-error: no such decision
    void commands.answer('ada', 'ses_1', { tool_call_id: 'call_1', decision: 'maybe' });
    // @ts-expect-error: no such argument
    void commands.publish('ada', 'ses_1', { project_id: 'prj_1' });
    // @ts-expect-error: a key is a text
    void commands.publish('ada', 'ses_1', { idempotencyKey: 1 });
  };
  expectTypeOf(refused).toBeFunction();
});
