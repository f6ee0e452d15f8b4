/** What a room holds, in a few words. */
type Rooms = Readonly<Record<string, string>>;

/**
 * The rooms of each folder, from the top down: a room imports only from those below it, and from files at the folder's root that
 * do so, too. A folder that is not listed has no rooms.
 */
export const ROOMS: Readonly<Record<string, Rooms>> = {
  client: {
    transfer: 'export and import of sessions',
    initiatives: 'commands and reads of initiatives',
    send: 'all that changes a session',
    rendezvous: 'all open sessions of one user',
    live: 'one session as it changes',
    state: 'scoped state, with the interface of ADK',
    planning: 'the folder .planning',
    'state-file': 'the file STATE.md',
    uploads: 'bytes from users',
    wait: 'waiting with a limit',
  },
};

/** How many files a room has, without tests. */
export const SMALLEST_ROOM = 2;
export const LARGEST_ROOM = 13;

/** Rooms of one file for each of many like things. */
export const ANY_SIZE: ReadonlySet<string> = new Set(['host/routes']);
