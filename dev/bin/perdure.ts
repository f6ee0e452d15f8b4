#!/usr/bin/env node
import { requireNode } from '../../config/require-node.ts';

requireNode('perdure');
const { perdure } = await import('../perdure.ts');
await perdure(process.argv.slice(2));
