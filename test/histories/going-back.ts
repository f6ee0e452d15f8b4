// Scenarios of users who go back: rewinds, edits and new answers, while nothing is in flight and while something is.
import { signals, updates } from '../../workflows/definitions.ts';
import { CANARY, hangingTurn, inOrder, logged, open, refused, type Scenario, turn, words } from './scenario.ts';

const rewinds: Scenario = {
  name: 'rewinds',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    await session.ended(await session.send(`First. ${CANARY}`, 'the-first-message'));
    await session.ended(await session.send(`Second. ${CANARY}`, 'the-second-message'));
    await session.command(updates.rewind, { message_id: 'the-second-message' });
    await session.command(updates.rewind, { message_id: 'the-first-message' });
    await session.command(updates.unrewind);
    await session.command(updates.unrewind);
    await session.command(updates.branch, { from_message_id: 'the-second-message' });
    await refused(session.command(updates.unrewind));
    await hangingTurn(runtime, session);
    await session.send(`Queued. ${CANARY}`);
    await refused(session.command(updates.rewind, { message_id: 'the-first-message' }));
    await session.command(updates.rewind, { message_id: 'the-first-message', abort: true });
    runtime.model.script(inOrder(words));
    await turn(session);
    return session;
  },
};

const rewindBySignal: Scenario = {
  name: 'rewind-by-signal',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    await session.ended(await session.send(`First. ${CANARY}`, 'the-first-message'));
    await session.ended(await session.send(`Second. ${CANARY}`, 'the-second-message'));
    await session.handle.signal(signals.rewind, { message_id: 'the-second-message' });
    await logged(runtime, session, 'rewind', 1);
    await session.handle.signal(signals.unrewind);
    await logged(runtime, session, 'unrewind', 1);
    const run = await hangingTurn(runtime, session);
    await session.handle.signal(signals.rewind, { message_id: 'the-first-message' });
    await logged(runtime, session, 'refused', 1);
    await session.handle.signal(signals.rewind, { message_id: 'the-first-message', abort: true });
    await session.ended(run);
    runtime.model.script(inOrder(words));
    await turn(session);
    return session;
  },
};

const edits: Scenario = {
  name: 'edits',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    await session.ended(await session.send(`First. ${CANARY}`, 'the-first-message'));
    await session.ended(await session.edit('the-first-message', `Better. ${CANARY}`));
    await hangingTurn(runtime, session);
    await session.send(`Queued. ${CANARY}`);
    runtime.model.script(inOrder(words));
    await session.ended(await session.edit('the-first-message', `Best. ${CANARY}`));
    return session;
  },
};

const editsInQueue: Scenario = {
  name: 'edits-in-queue',
  async play(runtime) {
    const session = await open(runtime);
    const first = await hangingTurn(runtime, session);
    await session.send(`Queued. ${CANARY}`, 'the-queued-message');
    const third = await session.send(`Third. ${CANARY}`);
    const edited = await session.edit('the-queued-message', `Better. ${CANARY}`);
    runtime.model.script(inOrder(words));
    await session.command(updates.abort);
    for (const run of [first, third, edited]) await session.ended(run);
    return session;
  },
};

const newAnswers: Scenario = {
  name: 'new-answers',
  async play(runtime) {
    runtime.model.script(inOrder(words));
    const session = await open(runtime);
    await session.ended(await session.send(`First. ${CANARY}`, 'the-first-message'));
    await session.ended(await session.regenerate('the-first-message'));
    await hangingTurn(runtime, session);
    await session.send(`Queued. ${CANARY}`);
    runtime.model.script(inOrder(words));
    await session.ended(await session.regenerate('the-first-message'));
    await turn(session);
    return session;
  },
};

export const goingBack = [rewinds, rewindBySignal, edits, editsInQueue, newAnswers];
