// Loaded by an older Node, too: no syntax and no import that such a version does not have.

const OLDEST = 24;

/** Exits with one line if this Node is too old for the program, whose other modules it could not even parse. */
export function requireNode(program: string): void {
  const { version } = process;
  if (Number(version.slice(1).split('.')[0]) >= OLDEST) return;
  console.error(`${program}: Node ${OLDEST} or newer is needed, this is ${version}`);
  process.exit(1);
}
