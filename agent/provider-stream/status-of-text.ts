// What the texts, types and codes of providers' errors say. No two providers agree on them.

export const TOO_LONG =
  /context[_ ]length|context window|maximum context|prompt is too long|input is too long|too many (?:input )?tokens|exceeds? (?:the )?context limit|exceeds? the (?:maximum|model|limit).{0,40}tokens|reduce the length/i;
/** "Flagged" is also said of accounts and keys. */
export const FILTERED =
  /content[_ ](?:filter(?:ed|ing)?|policy(?:_violation)?|management)\b|responsible ?ai|safety system|\b(?:prompt|input|content|request|messages?|output)\b[^.'"]{0,20}\bflagged\b/i;
export const QUOTA =
  /insufficient[_ ](?:quota|balance)|billing|credit balance|quota exceeded|exceeded your current quota/i;
export const OVERLOADED = /overloaded/i;
/** What a request may contain that a model does not take. "File" is in other errors, too. */
export const FILES = /\b(?:images?|audio|videos?|pdf|vision|multimodal|media[_ ]type|mime)\b/i;
const RATE_LIMITED = /rate[_ ]limit|too many requests|requests per/i;
const KEY = /authentication|permission|unauthorized|not authenticated|(?:^|[^a-z])api[_ -]?key/i;
/** Some servers answer 400 to a wrong key. */
export const WRONG_KEY =
  /(?:incorrect|invalid|expired)[_ ]api[_ -]?key|api[_ -]?key[_ ](?:is )?(?:not valid|invalid|expired)/i;
/** The model, not another thing that is missing. */
export const UNKNOWN_MODEL =
  /model_not_found|DeploymentNotFound|(?:unknown|invalid|no such) model|not a valid model|no endpoints found for|\bmodel\b.{0,80}(?:not exist|not found|not supported)/i;
const INVALID = /invalid_request|not_found|bad_request/i;
const FAILED = /server[_ ]error|internal[_ ]error|unavailable|time[_ ]?out|busy|try again|provider returned error/i;

/**
 * The HTTP status that fits what an error without one says; undefined if it says nothing known.
 *
 * @param text type, code and message
 */
export function statusOfText(text: string): number | undefined {
  if (QUOTA.test(text)) return 402;
  if (RATE_LIMITED.test(text)) return 429;
  if (OVERLOADED.test(text)) return 529;
  if (TOO_LONG.test(text) || FILTERED.test(text)) return 400;
  if (KEY.test(text)) return 401;
  if (UNKNOWN_MODEL.test(text) && !FILES.test(text)) return 404;
  if (INVALID.test(text)) return 400;
  return FAILED.test(text) ? 503 : undefined;
}

/** `code` as an HTTP status of an error, if it is one: some providers send it as the code. */
export function statusOfCode(code: unknown): number | undefined {
  const status = typeof code === 'string' && /^\d{3}$/.test(code) ? Number(code) : code;
  return typeof status === 'number' && Number.isInteger(status) && status >= 400 && status < 600 ? status : undefined;
}
