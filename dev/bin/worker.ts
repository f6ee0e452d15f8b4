#!/usr/bin/env node
import { requireNode } from '../../config/require-node.ts';

requireNode('perdure-worker');
await import('../../worker/main.ts');
