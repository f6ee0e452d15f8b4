import type { UIMessage } from 'ai';
import { totalTokens, type Usage } from '../../domain/usage.ts';
import type { Offered } from '../api/api.ts';

/** What an answer's metadata says of its model calls. */
interface Metered {
  model?: string;
  steps?: { usage: Usage }[];
}

interface Props {
  messages: readonly UIMessage[];
  offered: Offered | null;
  /** Of the session, in US dollars; null: unknown. */
  cost: number | null;
}

const PERCENT = 100;

/** How much of the model's window the conversation fills, what of it came from the provider's cache, and the cost. */
export function Meter({ messages, offered, cost }: Props) {
  const last = messages.findLast((message) => metered(message).steps?.length);
  const { model, steps = [] } = last === undefined ? {} : metered(last);
  const usage = steps.at(-1)?.usage;
  if (usage === undefined) return null;
  const used = totalTokens(usage);
  const read = usage.input + usage.cache_read + usage.cache_write;
  const limit = offered?.items.find((item) => item.model === model)?.context_limit;
  const tokens = used.toLocaleString('en');
  return (
    <p className="meter note">
      {limit === undefined ? (
        <span>Window: {tokens} tokens</span>
      ) : (
        <label>
          Window: {tokens} of {limit.toLocaleString('en')} tokens{' '}
          <meter min={0} max={limit} high={0.8 * limit} value={used} />
        </label>
      )}
      {read > 0 && <span>{Math.round((usage.cache_read / read) * PERCENT)} % from the cache</span>}
      {cost !== null && <span>${cost.toFixed(cost < 1 ? 4 : 2)}</span>}
    </p>
  );
}

function metered({ role, metadata }: UIMessage): Metered {
  return role === 'assistant' ? (metadata ?? {}) : {};
}
