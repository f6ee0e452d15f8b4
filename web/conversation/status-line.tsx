import { useEffect, useState } from 'react';

const RETRY_IN = /retry in (\d+) s/;
const TICK_MS = 1_000;

/**
 * A status text, with a countdown of a retry's delay: "rate limited, retrying in 11 s". The countdown is hidden from
 * screen readers, which would read out every second; they get the delay once.
 */
export function StatusLine({ words }: { words: string }) {
  const found = RETRY_IN.exec(words);
  if (!found) return words;
  const saying = (when: string) => words.replace(RETRY_IN, when);
  return (
    <>
      <span className="unseen">{saying(`retrying in ${found[1]} s`)}</span>
      <Countdown key={words} seconds={Number(found[1])} saying={saying} />
    </>
  );
}

function Countdown({ seconds, saying }: { seconds: number; saying: (when: string) => string }) {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    const from = performance.now();
    const timer = setInterval(() => setLeft(seconds - Math.floor((performance.now() - from) / TICK_MS)), TICK_MS);
    return () => clearInterval(timer);
  }, [seconds]);
  return <span aria-hidden="true">{saying(left > 0 ? `retrying in ${left} s` : 'retrying now')}</span>;
}
