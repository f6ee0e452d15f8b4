import { Connection, type ConnectionOptions, type OperatorService } from '@temporalio/client';

/** The search attributes by which sessions are found in Temporal; all are keywords. */
const SEARCH_ATTRIBUTES = ['PerdureUser', 'PerdureProject', 'PerdurePhase', 'PerdureStatus'] as const;

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
 * @throws what the server throws, as when one of them exists with another type
 */
export async function registerSearchAttributes(connection: Operator, namespace: string): Promise<string[]> {
  const missing = await missingSearchAttributes(connection, namespace);
  if (missing.length > 0) {
    const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]));
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
  }
  return missing;
}

/**
 * Like `registerSearchAttributes`, over a new connection.
 * @throws what the server throws, or that it cannot be reached
 */
export async function registerSearchAttributesAt(options: ConnectionOptions, namespace: string): Promise<string[]> {
  const connection = await Connection.connect(options);
  try {
    return await registerSearchAttributes(connection, namespace);
  } finally {
    await connection.close();
  }
}
