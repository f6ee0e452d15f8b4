#!/usr/bin/env node
import { requireNode } from '../../config/node-version.ts';

requireNode('perdure-migrate');
await import('../../migrations/main.ts');
