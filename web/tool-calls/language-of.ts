/** Languages by the ends of file names, as highlight.js calls them. */
const LANGUAGES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    bash: 'bash',
    c: 'c',
    cc: 'cpp',
    cpp: 'cpp',
    cs: 'csharp',
    css: 'css',
    go: 'go',
    h: 'c',
    hpp: 'cpp',
    htm: 'html',
    html: 'html',
    ini: 'ini',
    java: 'java',
    js: 'javascript',
    json: 'json',
    jsx: 'javascript',
    kt: 'kotlin',
    less: 'less',
    lua: 'lua',
    md: 'markdown',
    mjs: 'javascript',
    php: 'php',
    py: 'python',
    r: 'r',
    rb: 'ruby',
    rs: 'rust',
    scss: 'scss',
    sh: 'bash',
    sql: 'sql',
    svg: 'xml',
    swift: 'swift',
    toml: 'ini',
    ts: 'typescript',
    tsx: 'typescript',
    xml: 'xml',
    yaml: 'yaml',
    yml: 'yaml',
  }),
);

/** The language of a file, by its name; empty: not known. */
export function languageOf(path: string): string {
  const [, end = ''] = /\.(\w+)$/.exec(path) ?? [];
  return LANGUAGES.get(end.toLowerCase()) ?? '';
}
