import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Console } from './console.tsx';

const element = document.getElementById('console');
if (element) {
  createRoot(element).render(
    <StrictMode>
      <Console at={new URL(location.href).searchParams} />
    </StrictMode>,
  );
}
