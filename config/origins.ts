import { z } from 'zod';

/** What is expected of origins. */
export const ORIGINS_EXPECTED = 'exact origins such as http://localhost:5173';

/** Whether a text is an origin as browsers send it: scheme, host in lower case, and the port unless it is the scheme's. */
export function isOrigin(text: unknown): text is string {
  return typeof text === 'string' && /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

const NOT_ALL = 'not *, with which pages of every site could act for their visitors';

/** Origins, separated by commas. */
export const origins = z
  .string()
  .transform((text) => text.split(',').map((one) => one.trim()))
  .refine((all) => all.every(isOrigin), `${ORIGINS_EXPECTED}, separated by commas; ${NOT_ALL}`);
