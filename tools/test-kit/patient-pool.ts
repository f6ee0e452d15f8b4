import type pg from 'pg';
import { createPool, type PoolOptions } from '../../store/pool.ts';
import { patient } from './patient.ts';

/** A pool like the product's, which waits longer for a connection on a slow machine. */
export function patientPool(url: string, options: PoolOptions = {}): pg.Pool {
  const pool = createPool(url, options);
  pool.options.connectionTimeoutMillis = patient(pool.options.connectionTimeoutMillis!);
  return pool;
}
