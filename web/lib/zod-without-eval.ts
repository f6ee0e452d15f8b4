// zod, a dependency of the AI SDK, compiles schemas with `new Function` if allowed. The page's content security policy
// forbids that, and the browser reports even the attempt. Import this before the AI SDK.
import { config } from 'zod';

config({ jitless: true });
