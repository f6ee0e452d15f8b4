#!/usr/bin/env node
import { requireNode } from '../../config/node-version.ts';

requireNode('perdure-host');
await import('../../host/main.ts');
