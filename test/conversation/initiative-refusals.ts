// Refusals of initiatives, the page's advice, and what follows it.
import type { TestCaller } from '../../tools/test-kit/host.ts';

type Answer = Awaited<ReturnType<TestCaller['post']>>;

interface Case {
  refused(): Promise<Answer>;
  advice: RegExp;
  follow(): Promise<Answer>;
}

const PLAN = { title: 'x', phases: [{ name: 'p', plans: [{ name: 'l', tasks: [{ name: 'one' }, { name: 'two' }] }] }] };

/** @param caller who asks; called once a case runs */
export function initiativeCases(caller: () => TestCaller) {
  const post = (path: string, body: object) => caller().post(path, body);
  /** The initiative of the case that runs. */
  let current = '';
  const create = async () => {
    const { body } = await post('/api/initiatives', PLAN);
    return (current = `/api/initiatives/${body.initiative.initiative_id}`);
  };
  const reload: Pick<Case, 'advice' | 'follow'> = {
    advice: /Reload/,
    follow: () => caller().get(current),
  };
  const put = async (ifMatch: (etag: string) => string | undefined): Promise<Answer> => {
    const at = `${await create()}/STATE.md`;
    const read = await caller().fetch(at);
    const match = ifMatch(read.headers.get('etag') ?? '');
    const headers = { 'content-type': 'text/markdown', ...(match !== undefined && { 'if-match': match }) };
    const response = await caller().fetch(at, { method: 'PUT', headers, body: await read.text() });
    const body: unknown = response.ok ? {} : await response.json();
    return { status: response.status, headers: response.headers, body };
  };
  const again: Pick<Case, 'advice' | 'follow'> = {
    advice: /Read it again, then make your change/,
    follow: () => put((etag) => etag),
  };
  return {
    InitiativeNotFound: {
      ...reload,
      refused: async () => {
        await create();
        return caller().get('/api/initiatives/none');
      },
    },
    DecisionNotFound: { ...reload, refused: async () => caller().get(`${await create()}/decisions/none`) },
    BlockerNotFound: {
      ...reload,
      refused: async () => post(`${await create()}/blockers/none/resolve`, { resolution: 'r' }),
    },
    WorkSessionNotFound: {
      ...reload,
      refused: async () => post(`${await create()}/tasks/next`, { work_session: 'none' }),
    },
    TaskNotFound: {
      ...reload,
      refused: async () => post(`${await create()}/tasks/none/complete`, { work_session: 'none' }),
    },
    TaskAssigned: {
      refused: async () => {
        const at = await create();
        await post(`${at}/sessions`, { agent: 'a' });
        await post(`${at}/sessions`, { agent: 'b' });
        const { task_id } = (await post(`${at}/tasks/next`, { work_session: 'session-001' })).body;
        return post(`${at}/tasks/${task_id}/start`, { work_session: 'session-002' });
      },
      advice: /Take another task/,
      follow: () => post(`${current}/tasks/next`, { work_session: 'session-002' }),
    },
    ReviewRequired: {
      refused: async () => {
        const at = await create();
        await post(`${at}/state`, { resume_context: { files_modified_this_session: ['gone.ts'] } });
        await post(`${at}/sessions`, { agent: 'a' });
        return post(`${at}/tasks/next`, { work_session: 'session-001' });
      },
      advice: /Review what is missing/,
      follow: async () => {
        await post(`${current}/review`, { note: 'it is not needed' });
        return post(`${current}/tasks/next`, { work_session: 'session-001' });
      },
    },
    BlockerResolved: {
      ...reload,
      refused: async () => {
        const at = `${await create()}/blockers`;
        await post(at, { description: 'd', affects: [] });
        await post(`${at}/block-001/resolve`, { resolution: 'r' });
        return post(`${at}/block-001/resolve`, { resolution: 'r' });
      },
    },
    StaleState: { ...again, refused: () => put(() => '"v99"') },
    PreconditionRequired: { ...again, refused: () => put(() => undefined) },
  } satisfies Record<string, Case>;
}
