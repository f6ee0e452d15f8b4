import { useEffect, useState } from 'react';

const RETRY_IN = /retry in (\d+) s/;
const TICK_MS = 1_000;

/** A status' words; where they say when a retry comes, the seconds that are left: "rate limited, retrying in 11 s". */
export function StatusLine({ words }: { words: string }) {
  const found = RETRY_IN.exec(words);
  if (!found) return words;
  return (
    <>
      {words.slice(0, found.index)}
      <Countdown key={words} seconds={Number(found[1])} />
      {words.slice(found.index + found[0].length)}
    </>
  );
}

/** Not read out: a screen reader would count along. */
function Countdown({ seconds }: { seconds: number }) {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    const from = performance.now();
    const timer = setInterval(() => setLeft(seconds - Math.floor((performance.now() - from) / TICK_MS)), TICK_MS);
    return () => clearInterval(timer);
  }, [seconds]);
  return <span aria-hidden="true">{left > 0 ? `retrying in ${left} s` : 'retrying now'}</span>;
}
