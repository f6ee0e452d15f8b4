/** Longest answer of one model call, in UTF-16 units; today's longest are below one million. A stored image is base64. */
export const MAX_ANSWER = 16 * 1024 ** 2;
