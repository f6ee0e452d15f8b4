// `npm start`: `perdure dev` in this repository, with a chat page that is up to date.
import { runDev } from '../../dev/dev.ts';
import { buildPage } from './build-page.ts';

// The API works without the page, so a failed build of the page is not fatal.
await buildPage().catch((error: unknown) => console.error('the chat page could not be built:', error));
await runDev(process.argv.slice(2));
