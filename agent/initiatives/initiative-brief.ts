/** What the prompt of a session says about its initiative. */
export interface InitiativeBrief {
  title: string;
  status: string;
  next_action: string;
  /** The workspace has to be reviewed before anybody goes on. */
  review: boolean;
  position: { phase: number; phase_name: string; plan: number; plan_name: string; task: string; status: string };
  /** The newest ones, oldest first; `count` is the number of all. */
  decisions: { count: number; items: { date: string; context: string; decision: string; reason: string }[] };
  /** The active ones, oldest first. */
  blockers: { count: number; items: { id: string; description: string }[] };
}

const MAX_TEXT = 300;
/** Of all decisions, and of all blockers, in characters. */
const MAX_LIST = 4_000;

/** A section for the prompt, of about 10,000 characters at most. The same brief gives the same text. */
export function initiativeSection(brief: InitiativeBrief): string {
  const { position, decisions, blockers } = brief;
  const place = `Phase ${position.phase} (${line(position.phase_name)}), Plan ${position.plan} (${line(position.plan_name)})`;
  return [
    '# Initiative',
    '',
    'This session works on an initiative. What follows are its records; read more with the tool `initiative_read`.',
    '',
    `- Title: ${line(brief.title)}`,
    `- Position: ${place}, Task: ${line(position.task)} (${position.status})`,
    ...(brief.next_action.trim() === '' ? [] : [`- Next action: ${line(brief.next_action)}`]),
    ...(brief.review
      ? ['- Review required: the workspace is not as it was left, and no task is given until that was reviewed.']
      : []),
    ...listed(
      'Decisions',
      decisions.count,
      decisions.items,
      ({ date, context, decision, reason }) => `${date} · ${line(context)}: ${line(decision)} (${line(reason)})`,
    ),
    ...listed(
      'Active blockers',
      blockers.count,
      blockers.items,
      ({ id, description }) => `${id}: ${line(description)}`,
    ),
  ].join('\n');
}

function listed<T>(heading: string, count: number, items: readonly T[], write: (item: T) => string): string[] {
  if (items.length === 0) return [];
  const all = items.map((item) => `- ${write(item)}`);
  let used = 0;
  const lines = all.slice(all.findLastIndex(({ length }) => (used += length) > MAX_LIST) + 1);
  const title = lines.length < count ? `${heading} (the newest ${lines.length} of ${count})` : heading;
  return ['', `## ${title}`, '', ...lines];
}

/** A text on one line, cut. */
function line(text: string): string {
  const folded = text.trim().replaceAll(/\s+/g, ' ');
  return folded.length <= MAX_TEXT ? folded : `${folded.slice(0, MAX_TEXT).toWellFormed()}…`;
}
