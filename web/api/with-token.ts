/** The headers of a request, with the user's token if there is one. */
export function withToken(init: HeadersInit | undefined, token: string | undefined): Headers {
  const headers = new Headers(init);
  if (token !== undefined) headers.set('authorization', `Bearer ${token}`);
  return headers;
}
