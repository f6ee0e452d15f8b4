import type { UIMessage } from 'ai';
import type { Usage } from '../../domain/usage.ts';
import type { WindowInUse } from '../api/api.ts';

interface Props {
  messages: readonly UIMessage[];
  /** Null: no step yet. */
  window: WindowInUse | null;
  /** Of the session, in US dollars; null: unknown. */
  cost: number | null;
}

const PERCENT = 100;

/** How full the model's window is, how much of the last request came from the provider's cache, and the cost. */
export function Meter({ messages, window, cost }: Props) {
  const share = cacheShare(messages);
  const { tokens = null, limit = null } = window ?? {};
  if (tokens === null && share === undefined && cost === null) return null;
  return (
    <p className="meter note">
      {tokens !== null && <InUse tokens={tokens} limit={limit} />}
      {share !== undefined && <span>{Math.round(share * PERCENT)} % from the cache</span>}
      {cost !== null && <span>${cost.toFixed(cost < 1 ? 4 : 2)}</span>}
    </p>
  );
}

function InUse({ tokens, limit }: { tokens: number; limit: number | null }) {
  const words = tokens.toLocaleString('en');
  if (limit === null) return <span>Window: {words} tokens</span>;
  return (
    <label>
      Window: {words} of {limit.toLocaleString('en')} tokens{' '}
      <meter min={0} max={limit} high={0.8 * limit} value={tokens} />
    </label>
  );
}

/** What of the newest step's input the provider had cached, 0 to 1; undefined: unknown. */
function cacheShare(messages: readonly UIMessage[]): number | undefined {
  const last = messages.findLast((message) => stepsOf(message).length > 0);
  const usage = last && stepsOf(last).at(-1)?.usage;
  if (usage === undefined) return undefined;
  const read = usage.input + usage.cache_read + usage.cache_write;
  return read > 0 ? usage.cache_read / read : undefined;
}

function stepsOf({ role, metadata }: UIMessage): { usage: Usage }[] {
  return role === 'assistant' ? ((metadata as { steps?: { usage: Usage }[] } | undefined)?.steps ?? []) : [];
}
