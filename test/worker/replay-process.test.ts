// Replays in a process of their own, of real recorded histories.
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import proto from '@temporalio/proto';
import { describe, expect, it } from 'vitest';
import { HISTORIES, readHistories } from '../../tools/scripts/histories/files.ts';
import { patient } from '../../tools/test-kit/patient.ts';
import { eventAttributes, type History, type HistoryEvent } from '../../worker/replay/history.ts';
import type { GivenHistory } from '../../worker/replay/process.ts';
import { replayElsewhere } from '../../worker/replay/replay-elsewhere.ts';

const recorded = await readHistories(HISTORIES);

/** A recorded history as a worker reads it from Temporal, changed if `change` is given. */
function given(name: string, change: (history: History) => void = () => {}): GivenHistory {
  const history = structuredClone(recorded.find((one) => one.name === name)!.history);
  change(history);
  return { name, bytes: proto.temporal.api.history.v1.History.encode(historyFromJSON(history)).finish() };
}

const scheduled = ({ events }: History): HistoryEvent[] =>
  events.filter(({ eventType }) => eventType === 'EVENT_TYPE_ACTIVITY_TASK_SCHEDULED');

/** Another activity than the code asks for. */
function changeActivity(history: History): string {
  const event = scheduled(history).at(-1)!;
  (eventAttributes(event)['activityType'] as { name: string }).name = 'somethingElse';
  return event.eventId;
}

describe('a replay in a process of its own', () => {
  it(
    'W5 a history with a changed event breaks at that event; the others pass',
    { timeout: patient(180_000) },
    async () => {
      let changed = '';
      const histories = [
        given('plain-turn.1'),
        given('build-and-publish.1', (history) => (changed = changeActivity(history))),
        given('build-and-publish.1'),
      ];
      const answered = await replayElsewhere(histories, new AbortController().signal);
      expect(answered).toEqual({
        broke: [null, expect.stringContaining(`event ${changed} (ActivityTaskScheduled): `), null],
      });
    },
  );

  it(
    'W5 what is no history is refused, and a worker that stops ends the process',
    { timeout: patient(180_000) },
    async () => {
      const nonsense = { name: 'nonsense', bytes: Uint8Array.of(0xff, 0xff) };
      const refused = await replayElsewhere([nonsense], new AbortController().signal);
      expect(refused).toEqual({ problem: expect.stringMatching(/\w/) });
      const stopping = new AbortController();
      const stopped = replayElsewhere([given('plain-turn.1')], stopping.signal);
      stopping.abort();
      expect(await stopped).toEqual({ problem: expect.stringMatching(/stopped|took more than/) });
    },
  );
});
