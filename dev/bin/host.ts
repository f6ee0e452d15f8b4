#!/usr/bin/env node
import { requireNode } from '../../config/require-node.ts';

requireNode('perdure-host');
await import('../../host/main.ts');
