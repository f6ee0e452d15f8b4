#!/usr/bin/env node
import { requireNode } from '../../config/node-version.ts';

requireNode('perdure-worker');
await import('../../worker/main.ts');
