// Agents with subagents.
import { defineAgent } from '../../agent/definition/define.ts';
import { hurry, locate } from '../../tools/test-kit/asking-agent.ts';
import faultAgent from '../faults/agent.ts';

export const boss = defineAgent({
  ...faultAgent,
  id: 'boss',
  mode: 'primary',
  description: 'Delegates',
  subagents: ['helper'],
});

export const helper = defineAgent({
  ...faultAgent,
  id: 'helper',
  mode: 'all',
  description: 'Helps',
  subagents: ['helper'],
});

/** Asks before it delegates. */
export const careful = defineAgent({
  ...boss,
  id: 'careful',
  permissions: [{ permission: 'task', pattern: 'help*', action: 'ask' }],
});

/** Asks before it pays, and can hand that on. */
const payer = defineAgent({
  ...helper,
  id: 'payer',
  description: 'Pays',
  subagents: ['helper', 'payer', 'finder'],
  permissions: [{ permission: 'pay', pattern: '*', action: 'ask' }],
});

/** Has tools that the page carries out. */
const finder = defineAgent({
  ...helper,
  id: 'finder',
  description: 'Finds the user',
  tools: [...helper.tools, locate, hurry],
});

/** Asks before it pays, and never looks: so do all that it calls. */
const chief = defineAgent({
  ...boss,
  id: 'chief',
  subagents: ['helper', 'payer'],
  permissions: [
    { permission: 'pay', pattern: '*', action: 'ask' },
    { permission: 'look', pattern: '*', action: 'deny' },
  ],
});

/** Has no rules of its own. */
const owner = defineAgent({ ...boss, id: 'owner', subagents: ['helper', 'payer', 'finder'] });

export const subagentAgents = [boss, helper, careful, payer, finder, chief, owner];
