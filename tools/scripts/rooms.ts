/** What a room holds, in a few words. */
type Rooms = Readonly<Record<string, string>>;

/**
 * The rooms of each folder, from the top down: a room imports only from those below it, and from files at the folder's root that
 * do so, too. A folder that is not listed has no rooms.
 */
export const ROOMS: Readonly<Record<string, Rooms>> = {
  agent: {
    memory: 'a turn without servers',
    compaction: 'summaries of earlier turns, and the model that makes them',
    step: 'one model call, and the limits of a turn',
    parts: 'from the model’s stream to the parts of a message that are stored',
    mcp: 'tools of MCP servers',
    prompt: 'the system prompt and what it says',
    models: 'providers, and what each model needs',
    scripted: 'models without a network',
    'provider-failures': 'what a provider’s error means',
    'provider-stream': 'the bytes of a provider’s answer',
    loading: 'loading a module of agents',
    tools: 'calls of tools, and the limits of one',
    definition: 'what an author of agents writes',
    skills: 'skills, and the tool that reads them',
    initiatives: 'what an agent of an initiative has besides',
  },
  activities: {
    'head-starts': 'steps and tools that begin before their workflow task is done',
    recording: 'what a step and a tool call leave in the rows',
    window: 'whether the conversation is too long, and what then goes',
    prompt: 'what a step sends to the model',
    claims: 'which attempt may write to a run, and how its work stops',
    streaming: 'writing an answer while it streams',
    admission: 'how many answers a worker streams at once',
  },
  client: {
    transfer: 'export and import of sessions',
    initiatives: 'commands and reads of initiatives, and how an agent resumes one',
    send: 'messages, commands and answers of users',
    rendezvous: 'all open sessions of one user',
    live: 'one session as it changes',
    state: 'scoped state, with the interface of ADK',
    planning: 'the folder .planning',
    'state-file': 'the file STATE.md',
    uploads: 'bytes from users',
    wait: 'waiting with a limit',
  },
  host: {
    process: 'the server’s process, from start to stop',
    routes: 'a file for each resource',
    api: 'what routes have in common, and the pages made from them',
    http: 'requests and responses',
    auth: 'who calls',
    streams: 'Server-Sent Events',
    mcp: 'the host as an MCP server',
    files: 'previews and files of workspaces',
  },
  web: {
    page: 'the page as a whole',
    sidebar: 'the list of sessions',
    panels: 'what stands beside a conversation',
    navigation: 'which session and which panels are shown, and the keys for it',
    initiatives: 'the pages of initiatives',
    'initiative-board': 'one initiative',
    'initiative-parts': 'what both show, and what they read',
    conversation: 'the messages of a session',
    'tool-calls': 'a call, its question and its outcome',
    composer: 'writing a message',
    session: 'a session as this tab has it',
    transcript: 'the list of messages that is shown',
    console: 'the operator’s console',
    'console-session': 'one session, for its operator',
    'console-numbers': 'numbers and charts',
    'console-parts': 'what the console’s pages share',
    diagram: 'the page that draws diagrams, in a frame of its own',
    diff: 'changes of files',
    markdown: 'texts of models',
    design: 'buttons, dialogs and colours',
    api: 'requests to the host',
    lib: 'helpers that know nothing of Perdure',
  },
  worker: {
    periodic: 'what each worker does again and again',
    replay: 'replaying histories with this code',
    sandbox: 'the threads that run workflows: what leans on the inside of Temporal’s SDK',
    slots: 'how many tasks run at once',
    leases: 'which of the running workers is alive',
    startup: 'what a worker needs before work begins',
  },
};

/** How many files a room has, without tests. */
export const SMALLEST_ROOM = 2;
export const LARGEST_ROOM = 13;

/** Rooms of a file for each of many like things, and a page of one file. */
export const ANY_SIZE: ReadonlySet<string> = new Set(['host/routes', 'web/diagram']);

/** Their files are named after a subject, not an export: functions of a table, schemas of a resource, a user's own code. */
export const BY_SUBJECT: readonly string[] = [
  'store/',
  'wire/',
  'workflows/definitions.ts',
  'domain/command-table.ts',
  'config/units.ts',
];
