// zod, which the AI SDK brings along, compiles its schemas with `new Function` where it can. The page's content security
// policy forbids that, and trying alone is reported as an error. So this has to be imported before the AI SDK is.
import { config } from 'zod';

config({ jitless: true });
