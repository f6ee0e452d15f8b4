// Loaded before every test file.
import { afterAll } from 'vitest';
import { cleanUp } from '../tools/test-kit/after-file.ts';

const CLEANUP_MS = 60_000;

afterAll(cleanUp, CLEANUP_MS);
