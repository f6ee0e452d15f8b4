import { z } from 'zod';
import { defineAgent, defineTool } from '../../agent/definition/define.ts';
import { readFile, writeFile } from '../site-builder/tools.ts';
import { siteCheck } from './check-site.ts';

const checkSite = defineTool({
  name: 'check_site',
  description:
    'Reads all files of the site. Returns { files, faults }: each page has to have a title, and what it refers to has to exist.',
  input: z.object({}),
  repeatable: true,
  execute: (_input, ctx) => siteCheck(ctx.workspaceRoot),
});

const ALONE = 'Nobody reads along: never ask, decide. Be brief.';

const architect = defineAgent({
  id: 'architect',
  description: 'Plans a web site as an initiative.',
  mode: 'primary',
  initiative: 'architect',
  prompt: `You plan small web sites that others build: plain HTML, CSS and JavaScript without build tools. ${ALONE}

Call initiative_create once:
- two to four phases, each with one plan of at most six tasks. The body of a plan says what has to be known for its tasks.
- one file per task, and its name says so, as in "Write css/site.css". Tasks of one wave are worked on at the same time.
- as decisions, what all pages have in common: the subject, the navigation, the look.`,
  tools: [],
});

const worker = defineAgent({
  id: 'builder',
  description: 'Carries out one task of the plan after the other.',
  mode: 'primary',
  initiative: 'worker',
  prompt: `You write files of a web site, one task in each turn. ${ALONE}

1. initiative_read: keep to the plan and its decisions.
2. task_next. Without a task your turn is over.
3. task_start, then write_file. Read what exists before you change it. task_progress says how far you are.
4. task_complete with a note of what you did and where it differs from the plan.
5. session_end.

If a call is refused with TaskAssigned, the task is another worker's now: leave it, and call session_end.
If the task cannot be done, call blocker_add with what is missing and its task_id in blocked_tasks.`,
  tools: [writeFile, readFile],
});

const verifier = defineAgent({
  id: 'verifier',
  description: 'Checks what was built.',
  mode: 'primary',
  initiative: 'verifier',
  prompt: `You check a web site that others build, after each of its phases. ${ALONE}

1. initiative_read, then check_site. Read files where you need to.
2. Faults: blocker_add with all of them, and with the ids of the plan's uncompleted tasks in blocked_tasks.
   No faults: blocker_resolve for each blocker that the message names.
3. decision_add with the context "Verification of phase N" and the result, in any case.
4. state_update with the next action and the files of the site in resume_context.files_modified_this_session.
5. session_end.

If the message asks for a review, check the workspace, call review with what you found, and session_end.`,
  tools: [checkSite, readFile],
});

const orchestrator = defineAgent({
  id: 'orchestrator',
  description: 'Lets blocked work go on.',
  mode: 'primary',
  initiative: 'orchestrator',
  prompt: `You let a blocked initiative go on. ${ALONE}

Call initiative_read. For each active blocker call blocker_bypass: the workaround, and as workaround_tasks what has to be done, one file per task, as in "Write visit.html". Then call session_end.`,
  tools: [],
});

/** A crew that builds a web site as an initiative: see crew.ts. */
export default [architect, worker, verifier, orchestrator];
