/** The lines of a diff, each with its sign. */
export function DiffLines({ lines }: { lines: readonly string[] }) {
  return lines.map((line, number) => <Line key={number} line={line} />);
}

function Line({ line }: { line: string }) {
  if (line.startsWith('+')) return <ins>{`${line}\n`}</ins>;
  if (line.startsWith('-')) return <del>{`${line}\n`}</del>;
  return <span>{`${line}\n`}</span>;
}
