import { useCallback, useEffect, useRef, useState } from 'react';
import type { Initiative } from '../../wire/initiative-views.ts';
import { access } from '../api/access.ts';
import type { ListPart } from '../api/api.ts';
import { wordsOf } from '../api/problem.ts';
import { Done, Notice, StatusTag, When } from '../initiative-parts/entry.tsx';
import { readInitiatives } from '../initiative-parts/initiative-api.ts';
import { INITIATIVE_WORDS } from '../initiative-parts/initiative-words.ts';

type Listed = ListPart<Initiative>;

/** The user's initiatives, newest first. They are read again when the tab is shown again. */
export function InitiativeList() {
  const [listed, setListed] = useState<Listed>();
  const [notice, setNotice] = useState<string>();
  /** How many are shown: as many are read again. */
  const shown = useRef(0);
  const read = useCallback(async (before?: Listed) => {
    try {
      const known = before === undefined ? await firstOf(shown.current) : await older(before);
      shown.current = known.items.length;
      setListed(known);
      setNotice(undefined);
    } catch (error) {
      setNotice(wordsOf(error));
    }
  }, []);
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const readIfShown = () => {
      if (document.visibilityState === 'visible') void read();
    };
    document.addEventListener('visibilitychange', readIfShown, { signal });
    window.addEventListener('online', readIfShown, { signal });
    access.onAccess(readIfShown, signal);
    void read();
    return () => leaving.abort();
  }, [read]);
  return (
    <>
      {notice !== undefined && <Notice text={notice} />}
      {listed === undefined && notice === undefined && <p className="loading">Loading…</p>}
      {listed?.items.length === 0 && <Empty />}
      {listed !== undefined && listed.items.length > 0 && (
        <ul className="listed" aria-label="Your initiatives">
          {listed.items.map((item) => (
            <Row key={item.initiative.initiative_id} item={item} />
          ))}
        </ul>
      )}
      {listed !== undefined && listed.next !== null && (
        <button type="button" onClick={() => void read(listed)}>
          Show older ones
        </button>
      )}
    </>
  );
}

/** The newest ones, at least this many if there are so many. */
async function firstOf(count: number): Promise<Listed> {
  let known: Listed = await readInitiatives();
  while (known.items.length < count && known.next !== null) known = await older(known);
  return known;
}

async function older({ items, next }: Listed): Promise<Listed> {
  const page = await readInitiatives(next ?? undefined);
  return { items: [...items, ...page.items], next: page.next };
}

function Empty() {
  return (
    <div className="empty">
      <p>No initiatives yet.</p>
      <p className="note">
        An initiative is work in phases, plans and tasks that outlives a session. An agent with the role of an architect
        creates one, or a program with <code>POST /api/initiatives</code>.
      </p>
    </div>
  );
}

function Row({ item: { initiative, state } }: { item: Initiative }) {
  const { initiative_id, title, status, updated_at } = initiative;
  const { phase, phase_name, task } = state.position;
  return (
    <li>
      <p className="row">
        <a href={`/i/${initiative_id}`} dir="auto">
          {title}
        </a>
        <StatusTag status={status} words={INITIATIVE_WORDS[status]} />
      </p>
      <Done progress={state.progress} name={`Progress of ${title}`} />
      <p className="note" dir="auto">
        {status === 'completed' ? 'All phases are completed' : `Phase ${phase}: ${phase_name} · ${task}`}
      </p>
      <p className="note">
        Changed <When at={updated_at} />
      </p>
    </li>
  );
}
