import { Connection, type ConnectionOptions, type OperatorService } from '@temporalio/client';

/** The search attributes by which sessions are found in Temporal; all are keywords. */
const SEARCH_ATTRIBUTES = ['PerdureUser', 'PerdureProject', 'PerdurePhase', 'PerdureStatus'] as const;

/** IndexedValueType INDEXED_VALUE_TYPE_KEYWORD of Temporal's API. */
const KEYWORD = 2;

/** What is asked of a connection to Temporal: a client's and a worker's both have it. */
type Operator = { operatorService: OperatorService };

/** Those of the search attributes that the namespace does not have. */
export async function missingSearchAttributes(connection: Operator, namespace: string): Promise<string[]> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return SEARCH_ATTRIBUTES.filter((name) => (customAttributes[name] as number | undefined) !== KEYWORD);
}

/**
 * Registers what is missing; returns their names.
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
 * The same over a connection of its own.
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
