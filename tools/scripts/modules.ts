// What the modules of this repository import and export, as the checks read it.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parseSync } from 'oxc-parser';

export type Import = { specifier: string; typeOnly: boolean };

export interface ModuleFacts {
  /** Everything that a file imports, also by `import('…')`, or exports from elsewhere. */
  imports: readonly Import[];
  /** The names under which it exports what is its own, each once. */
  exports: readonly string[];
}

/** @throws {Error} the file does not parse */
export function factsOf(file: string, source: string): ModuleFacts {
  const { module, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
  const allTypes = (entries: { isType: boolean }[]) => entries.length > 0 && entries.every((entry) => entry.isType);
  const imports = module.staticImports.map((one) => ({
    specifier: one.moduleRequest.value,
    typeOnly: allTypes(one.entries),
  }));
  const reexports = module.staticExports.flatMap(({ entries }) =>
    entries.flatMap((entry) =>
      entry.moduleRequest ? [{ specifier: entry.moduleRequest.value, typeOnly: entry.isType }] : [],
    ),
  );
  const dynamic = module.dynamicImports.flatMap(({ moduleRequest: { start, end } }) => {
    const literal = /^(['"])(.*)\1$/.exec(source.slice(start, end));
    return literal === null ? [] : [{ specifier: literal[2]!, typeOnly: false }];
  });
  const exports = module.staticExports.flatMap(({ entries }) =>
    entries.flatMap(({ moduleRequest, exportName, localName }) =>
      moduleRequest ? [] : [exportName.name ?? localName.name ?? 'default'],
    ),
  );
  return { imports: [...imports, ...reexports, ...dynamic], exports: [...new Set(exports)] };
}

/** The facts of a file below `root`. */
export function readModule(root: string, file: string): ModuleFacts {
  return factsOf(file, readFileSync(path.join(root, file), 'utf8'));
}
