import path from 'node:path';
import type { Node, SourceFile } from 'typescript/unstable/ast';
import { NodeBuilderFlags, type Project, type Symbol as Named, SymbolFlags, type Type } from 'typescript/unstable/sync';

/** Texts in quotes; names that the compiler qualifies by a file or package; values and types by their names alone. */
const WORDS = /'[^']*'|import\("([^"]+)"\)\.([\w$]+)|"[^"]*"|(?<=typeof )([a-z][\w$]*)|(?<![.\w$])([A-Z][\w$]*)/g;
const COMMENTS = /\/\*.*?\*\/|\/\/.*?$/gms;
/** A shorter union of texts is printed as such: it may be another one by chance. */
const LONG_UNION = 4;

export const TYPES: SymbolFlags = SymbolFlags.Class | SymbolFlags.Interface | SymbolFlags.TypeAlias;
const NAMED_LIKE_TYPES: SymbolFlags = TYPES | SymbolFlags.TypeParameter;

/** Texts of types, with names that do not depend on the files where the types are declared. */
export class TypeNames {
  readonly #project: Project;
  /** By the symbol's id. */
  readonly #names = new Map<number, string>();
  readonly #taken = new Set<string>();
  /** Exported unions of texts by what the compiler prints where it has lost their names. */
  readonly #unions = new Map<string, { name: string; id: number }>();
  /** What this package declares and texts have named so far, without what was exported. */
  readonly hidden = new Map<Named, string>();

  constructor(project: Project) {
    this.#project = project;
  }

  /** What a module exports, in order. */
  exportsOf(file: string): [name: string, symbol: Named][] {
    const { checker, program } = this.#project;
    const source = program.getSourceFile(file);
    const module = source && checker.getSymbolAtLocation(source);
    if (module === undefined) throw new Error(`${file} is no module of ${this.#project.configFileName}`);
    return checker.getExportsOfModule(module).map((symbol) => [symbol.name, this.#resolved(symbol)]);
  }

  /** Notes the public name of a symbol; one that an earlier entry has used for something else stands with its entry. */
  addExported(symbol: Named, name: string, entry: string): void {
    if (this.#names.has(symbol.id)) return;
    this.#addName(symbol, this.#taken.has(name) ? `import('${entry}').${name}` : name);
    if (!(symbol.flags & SymbolFlags.TypeAlias)) return;
    const type = this.#project.checker.getDeclaredTypeOfSymbol(symbol);
    const members = type.isUnionType() ? type.getTypes() : [];
    if (members.length < LONG_UNION || !members.every((each) => each.isStringLiteralType())) return;
    this.#unions.set(this.#print(type, nodeOf(symbol), NodeBuilderFlags.InTypeAlias), { name, id: type.id });
  }

  /** A type by its name, if it has one. @param node where the text stands */
  text(type: Type, node: Node): string {
    return this.named(this.#print(type, node), node);
  }

  /** A type as what its name stands for. */
  expanded(type: Type, node: Node): string {
    return this.named(this.#print(type, node, NodeBuilderFlags.InTypeAlias), node, type);
  }

  /** A type as it is written. */
  written(type: Node, node: Node): string {
    return this.named(type.getText().replaceAll(COMMENTS, ''), node);
  }

  /** A text with the compiler's names, as at the node. @param own a type whose own name does not replace it */
  named(text: string, node: Node, own?: Type): string {
    let shorter = text;
    for (const [union, { name, id }] of this.#unions) if (id !== own?.id) shorter = shorter.replaceAll(union, name);
    return shorter.replace(WORDS, (whole, module?: string, imported?: string, value?: string, type?: string) => {
      if (module !== undefined && !module.startsWith('.')) return whole;
      const symbol =
        module === undefined ? this.#inScope(value ?? type, node) : this.#imported(module, imported!, node);
      return symbol === undefined ? whole : this.#refer(symbol);
    });
  }

  #print(type: Type, node: Node, more = NodeBuilderFlags.None): string {
    return this.#project.checker.typeToString(type, node, NodeBuilderFlags.NoTruncation | more);
  }

  #inScope(name: string | undefined, node: Node): Named | undefined {
    if (name === undefined) return undefined;
    const meaning = /^[A-Z]/.test(name) ? NAMED_LIKE_TYPES : SymbolFlags.Value;
    const found = this.#project.checker.resolveName(name, meaning, node);
    const symbol = found && this.#resolved(found);
    if (symbol === undefined || symbol.flags & SymbolFlags.TypeParameter) return undefined;
    return packageOf(nodeOf(symbol)) === undefined ? symbol : undefined;
  }

  #imported(module: string, name: string, node: Node): Named | undefined {
    const file = path.resolve(path.dirname(sourceFileOf(node).fileName), module);
    return this.exportsOf(file).find(([exported]) => exported === name)?.[1];
  }

  #refer(symbol: Named): string {
    const known = this.#names.get(symbol.id);
    if (known !== undefined) return known;
    let name = symbol.name;
    for (let at = 2; this.#taken.has(name); at++) name = `${symbol.name}_${at}`;
    this.#addName(symbol, name);
    this.hidden.set(symbol, name);
    return name;
  }

  #addName(symbol: Named, name: string): void {
    this.#taken.add(name);
    this.#names.set(symbol.id, name);
  }

  #resolved(symbol: Named): Named {
    return symbol.flags & SymbolFlags.Alias ? this.#project.checker.getAliasedSymbol(symbol) : symbol;
  }
}

/** The declaration of a symbol; its first one, if it has several. */
export function nodeOf(symbol: Named): Node {
  return (symbol.valueDeclaration ?? symbol.declarations[0])!.resolve()!;
}

/** The package that declares it, `typescript` for what every program has; undefined: this one. */
export function packageOf(node: Node): string | undefined {
  const { fileName } = sourceFileOf(node);
  const inPackage = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(fileName)?.[1];
  return inPackage ?? (/\/lib\.[\w.]*d\.ts$/.test(fileName) ? 'typescript' : undefined);
}

function sourceFileOf(node: Node): SourceFile {
  let at = node;
  while (at.parent !== undefined) at = at.parent;
  return at as SourceFile;
}
