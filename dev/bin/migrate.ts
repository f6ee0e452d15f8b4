#!/usr/bin/env node
import { requireNode } from '../../config/require-node.ts';

requireNode('perdure-migrate');
await import('../../migrations/main.ts');
