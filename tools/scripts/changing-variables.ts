import type { Expression, Program, Statement, VariableDeclarator } from 'oxc-parser';

const COLLECTIONS = new Set(['Map', 'Set', 'WeakMap', 'WeakSet']);

/**
 * Names of a module's top-level variables that can change while it runs: `let` and `var`, and collections whose type is not
 * declared `Readonly…`. Objects and arrays are left out: the SDK freezes those that a preloaded module exports.
 */
export function changingVariables(program: Program): string[] {
  return program.body.flatMap((statement) => {
    const declaration = declarationOf(statement);
    if (declaration?.type !== 'VariableDeclaration' || declaration.declare === true) return [];
    const changing = declaration.declarations.filter(
      (each) => declaration.kind === 'let' || declaration.kind === 'var' || isCollection(each),
    );
    return changing.map(({ id }) => (id.type === 'Identifier' ? id.name : 'a variable'));
  });
}

function declarationOf(statement: Statement) {
  return statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
}

function isCollection({ id, init }: VariableDeclarator): boolean {
  if (init === null || init.type !== 'NewExpression' || !isNamed(init.callee, COLLECTIONS)) return false;
  const type = 'typeAnnotation' in id ? id.typeAnnotation?.typeAnnotation : undefined;
  return !(
    type?.type === 'TSTypeReference' &&
    type.typeName.type === 'Identifier' &&
    type.typeName.name.startsWith('Readonly')
  );
}

function isNamed(expression: Expression, names: ReadonlySet<string>): boolean {
  return expression.type === 'Identifier' && names.has(expression.name);
}
