import { Connection, type ConnectionOptions, type OperatorService } from '@temporalio/client';
import { ConfigError } from './error.ts';
import { grpcInterceptors } from './grpc-interceptors.ts';

/** The search attributes by which sessions are found in Temporal; all are keywords. */
const SEARCH_ATTRIBUTES = ['PerdureUser', 'PerdureProject', 'PerdurePhase', 'PerdureStatus'] as const;

/** Codes of gRPC: PERMISSION_DENIED, UNIMPLEMENTED. */
const CANNOT: ReadonlySet<unknown> = new Set([7, 12]);

/** IndexedValueType INDEXED_VALUE_TYPE_KEYWORD of Temporal's API. */
const KEYWORD = 2;

/** The part of a Temporal connection that is used here; those of clients and of workers have it. */
type Operator = { operatorService: OperatorService };

/** Names of the search attributes that the namespace lacks. */
export async function missingSearchAttributes(connection: Operator, namespace: string): Promise<string[]> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return SEARCH_ATTRIBUTES.filter((name) => (customAttributes[name] as number | undefined) !== KEYWORD);
}

/**
 * Registers the missing search attributes and returns their names.
 * @throws {ConfigError} naming them, if the server does not let this key add them; else what the server throws, as when one
 * exists with another type
 */
export async function registerSearchAttributes(connection: Operator, namespace: string): Promise<string[]> {
  const missing = await missingSearchAttributes(connection, namespace);
  if (missing.length > 0) {
    const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]));
    await connection.operatorService
      .addSearchAttributes({ namespace, searchAttributes })
      .catch((error: unknown) => refuseToAdd(error, namespace, missing));
  }
  return missing;
}

/** @throws {ConfigError} naming the attributes, if this key may not add them, as in Temporal Cloud; else the error */
function refuseToAdd(error: unknown, namespace: string, missing: readonly string[]): never {
  if (!CANNOT.has((error as { code?: unknown }).code)) throw error;
  const expected =
    `a namespace with the search attributes ${missing.join(', ')}, of type Keyword: "${namespace}" lacks them, and ` +
    'Temporal does not let this key add them; in Temporal Cloud, add them in its web UI or with its command line tool';
  throw new ConfigError([{ name: 'TEMPORAL_NAMESPACE', expected }]);
}

/**
 * Like `registerSearchAttributes`, over a new connection.
 * @throws what the server throws, or that it cannot be reached
 */
export async function registerSearchAttributesAt(options: ConnectionOptions, namespace: string): Promise<string[]> {
  const connection = await Connection.connect({ ...options, interceptors: grpcInterceptors() });
  try {
    return await registerSearchAttributes(connection, namespace);
  } finally {
    await connection.close();
  }
}
