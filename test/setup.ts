// Loaded before every test file.
import { afterAll } from 'vitest';
import { cleanUp } from '../tools/test-kit/after-file.ts';
import { patient } from '../tools/test-kit/patient.ts';

const CLEANUP_MS = patient(60_000);

afterAll(cleanUp, CLEANUP_MS);
