import { type ClassDeclaration, type Node, SyntaxKind, type TypeAliasDeclaration } from 'typescript/unstable/ast';
import {
  ModifierFlags,
  NodeBuilderFlags,
  type Project,
  type Signature,
  SignatureKind,
  type Symbol as Named,
  SymbolFlags,
  type Type,
} from 'typescript/unstable/sync';
import { nodeOf, packageOf, TypeNames, TYPES } from './type-names.ts';

/** An entry of the package, such as `perdure/client`, and its source file. */
interface Entry {
  name: string;
  file: string;
}

/** Prints what users see of a package: no comments, no bodies, no private members, no files. */
export class DeclarationPrinter {
  readonly #project: Project;
  readonly #names: TypeNames;

  constructor(project: Project) {
    this.#project = project;
    this.#names = new TypeNames(project);
  }

  /** A section for each entry, and one for the types that they name and no entry exports. */
  print(entries: readonly Entry[]): string {
    const sections = entries.map(({ name, file }) => ({ entry: name, symbols: this.#names.exportsOf(file) }));
    for (const { entry, symbols } of sections) {
      for (const [name, symbol] of symbols) this.#names.addExported(symbol, name, entry);
    }
    const printed = new Map<number, string>();
    const lines: string[] = [];
    for (const { entry, symbols } of sections) {
      lines.push(`// == ${entry}`);
      for (const [name, symbol] of symbols) {
        const before = printed.get(symbol.id);
        lines.push(before === undefined ? this.#declaration(symbol, name) : `export { ${name} } from '${before}';`);
        printed.set(symbol.id, before ?? entry);
      }
      lines.push('');
    }
    lines.push('// == named by these, and not exported');
    // A Map also iterates over what is added meanwhile.
    for (const [symbol, name] of this.#names.hidden) lines.push(this.#declaration(symbol, name));
    return lines.join('\n');
  }

  #declaration(symbol: Named, name: string): string {
    const { checker } = this.#project;
    const node = nodeOf(symbol);
    const from = packageOf(node);
    if (from !== undefined) return `export { ${name} } from '${from}';`;
    if (!(symbol.flags & TYPES)) {
      const type = checker.getTypeOfSymbol(symbol)!;
      if (!(symbol.flags & SymbolFlags.Function)) return `const ${name}: ${this.#names.text(type, node)};`;
      return this.#calls(type, node)
        .map((call) => `function ${name}${call}`)
        .join('\n');
    }
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    const { typeParameters = [] } = node as ClassDeclaration;
    const parameters = typeParameters.map((each) => this.#names.written(each, node)).join(', ');
    const head = parameters === '' ? name : `${name}<${parameters}>`;
    if (symbol.flags & SymbolFlags.Class) return `class ${head}${this.#class(symbol, type, node)}`;
    if (symbol.flags & SymbolFlags.Interface) return `interface ${head} { ${this.#members(type, node)} }`;
    return `type ${head} = ${this.#alias(type, node as TypeAliasDeclaration)};`;
  }

  #class(symbol: Named, type: Type, node: Node): string {
    const { checker } = this.#project;
    const [base] = type.getBaseTypes() ?? [];
    const heritage = base === undefined ? '' : ` extends ${this.#names.text(base, node)}`;
    const constructors = checker
      .getSignaturesOfType(checker.getTypeOfSymbol(symbol)!, SignatureKind.Construct)
      .filter(({ declaration }) => isPublic(declaration?.resolve()))
      .map((each) => this.#signature(each, node))
      .map((text) => `constructor${text.slice(text.indexOf('('), text.lastIndexOf('): ') + 1)};`);
    const statics = [...symbol.getExports().values()].filter(({ name }) => name !== 'prototype');
    const ofClass = this.#properties(statics, node).map((line) => `static ${line}`);
    return `${heritage} { ${[...constructors, ...ofClass].join('\n')} ${this.#members(type, node)} }`;
  }

  /** Of an object its members, so that what the compiler has inferred, picked or mapped is in the text. */
  #alias(type: Type, node: TypeAliasDeclaration): string {
    const all = (type.isIntersectionType() ? type.getTypes() : undefined) ?? [type];
    if (all.every((each) => this.#hasMembersOnly(each, node))) return `{ ${this.#members(type, node)} }`;
    return node.typeParameters === undefined ? this.#names.expanded(type, node) : this.#names.written(node.type, node);
  }

  /** False also for what has no members before its type parameters are known. */
  #hasMembersOnly(type: Type, node: Node): boolean {
    const { checker } = this.#project;
    return (
      type.isObjectType() &&
      !checker.isArrayLikeType(type) &&
      this.#properties(checker.getPropertiesOfType(type), node).length > 0 &&
      checker.getIndexInfosOfType(type).length === 0 &&
      checker.getSignaturesOfType(type, SignatureKind.Call).length === 0
    );
  }

  #members(type: Type, node: Node): string {
    const { checker } = this.#project;
    const indexed = checker
      .getIndexInfosOfType(type)
      .map(
        ({ keyType, valueType }) => `[key: ${this.#names.text(keyType, node)}]: ${this.#names.text(valueType, node)};`,
      );
    const named = this.#properties(checker.getPropertiesOfType(type), node);
    return [...this.#calls(type, node), ...indexed, ...named].join('\n');
  }

  #properties(symbols: readonly Named[], node: Node): string[] {
    return symbols.flatMap((symbol) => {
      const declaration = symbol.declarations[0]?.resolve();
      // What a mapped type makes has no declaration of its own.
      if (declaration !== undefined && !isPublic(declaration)) return [];
      const text = this.#names.text(this.#project.checker.getTypeOfSymbol(symbol)!, node);
      const isOptional = (symbol.flags & SymbolFlags.Optional) !== 0;
      const before = (modifiersOf(declaration) & ModifierFlags.Readonly) === 0 ? '' : 'readonly ';
      return [
        `${before}${nameOf(symbol)}${isOptional ? '?' : ''}: ${isOptional ? text.replace(/ \| undefined$/, '') : text};`,
      ];
    });
  }

  #calls(type: Type, node: Node): string[] {
    const signatures = this.#project.checker.getSignaturesOfType(type, SignatureKind.Call);
    return signatures.map((each) => this.#signature(each, node));
  }

  #signature(signature: Signature, node: Node): string {
    const { checker, emitter } = this.#project;
    const kind = SyntaxKind.CallSignature;
    const made = checker.signatureToSignatureDeclaration(signature, kind, node, NodeBuilderFlags.NoTruncation)!;
    return this.#names.named(emitter.printNode(made), node);
  }
}

/** A unique symbol is numbered by the compiler. */
function nameOf({ name }: Named): string {
  const unique = /^__@(.*)@\d+$/.exec(name)?.[1];
  if (unique !== undefined) return `[${unique}]`;
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}

/** Whether users see it, and this package declares it. */
function isPublic(node: Node | undefined): boolean {
  if (node === undefined || packageOf(node) !== undefined) return false;
  const isHidden = (modifiersOf(node) & (ModifierFlags.Private | ModifierFlags.Protected)) !== 0;
  return !isHidden && (node as { name?: Node }).name?.kind !== SyntaxKind.PrivateIdentifier;
}

function modifiersOf(node: Node | undefined): ModifierFlags {
  return (node as ClassDeclaration | undefined)?.modifierFlags ?? ModifierFlags.None;
}
