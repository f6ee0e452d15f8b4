import './lib/zod-without-eval.ts';
import { type ReactNode, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { keepFocus } from './lib/keep-focus.ts';
import { Place } from './navigation/place.ts';
import { Page } from './page/page.tsx';
import { UserSessions } from './sidebar/user-sessions.ts';

const INITIATIVES = /^\/i(?:\/(\w{1,64}))?$/;

/** The page at this address: initiatives, whose code is loaded on demand, or the chat. */
async function pageHere(): Promise<ReactNode> {
  const found = INITIATIVES.exec(location.pathname);
  if (found === null) return <Page place={await Place.open()} sessions={new UserSessions()} />;
  const { InitiativesPage } = await import('./initiatives/initiatives-page.tsx');
  return <InitiativesPage id={found[1]} />;
}

const page = await pageHere();
const element = document.getElementById('page');
if (element) {
  keepFocus(element);
  createRoot(element).render(<StrictMode>{page}</StrictMode>);
}
