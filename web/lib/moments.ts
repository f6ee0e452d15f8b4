/** A moment in the user's language and time zone: of today the time, else also the day. */
export function momentWords(at: Date, now = new Date()): string {
  const isToday = at.toDateString() === now.toDateString();
  const isThisYear = at.getFullYear() === now.getFullYear();
  return at.toLocaleString(undefined, {
    hour: 'numeric',
    minute: '2-digit',
    ...(!isToday && { day: 'numeric', month: 'short' }),
    ...(!isThisYear && { year: 'numeric' }),
  });
}
