import './zod-without-eval.ts';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { keepFocus } from './focus-home.ts';
import { Page } from './page.tsx';
import { TabSession } from './session.ts';
import { openTab } from './tab.ts';

const session = new TabSession(await openTab());
const element = document.getElementById('page');
if (element) {
  keepFocus(element);
  createRoot(element).render(
    <StrictMode>
      <Page session={session} />
    </StrictMode>,
  );
}
