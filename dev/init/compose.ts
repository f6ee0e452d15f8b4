/**
 * The compose file of a project: that of this version, with the project's image and agents.
 * @param text docker-compose.yml of this version
 * @throws {Error} if a part that has to be changed is not there
 */
export function composeOf(text: string, name: string): string {
  const project = name.replaceAll(/[^a-z0-9_-]+/g, '-').replace(/^[^a-z0-9]+/, '');
  const changes: [from: RegExp, to: string][] = [
    [
      /^(?:#.*\n)+/,
      '# The project with Postgres and Temporal on one machine: copy .env.example to .env, fill it in, then\n' +
        '# `docker compose up --detach --build`. docs/operations.md of the package perdure says more.\n',
    ],
    [/^name: perdure$/m, `name: ${project}`],
    [/^( {2})image: perdure:.*$/m, `$1image: ${project}`],
    [/^( {2}PERDURE_DIR: .*)$/m, '$1\n  PERDURE_AGENTS: agent.ts'],
    [/\[node, dist\/dev\/bin\/migrate\.js\]/, '[node_modules/.bin/perdure, migrate]'],
    [/\[node, dist\/dev\/bin\/worker\.js\]/, '[node_modules/.bin/perdure, worker]'],
    [/\[node, dist\/dev\/bin\/host\.js\]/, '[node_modules/.bin/perdure, host]'],
  ];
  return changes.reduce((result, [from, to]) => {
    if (!from.test(result)) throw new Error(`the compose file has no ${from.source}`);
    return result.replace(from, to);
  }, text);
}
