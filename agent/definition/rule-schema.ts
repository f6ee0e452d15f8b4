import { z } from 'zod';
import { patternFault, RULE_ACTIONS } from '../../domain/permissions.ts';

/** A permission rule of a manifest. */
export const ruleSchema = z.strictObject({
  /** Name of a tool of the agent; of a rule of an MCP server, the server's own name of a tool. */
  permission: z.string(),
  pattern: z.string().superRefine((pattern, context) => {
    const fault = patternFault(pattern);
    if (fault !== undefined) context.addIssue(`expected ${fault}`);
  }),
  action: z.enum(RULE_ACTIONS, 'expected "allow", "deny" or "ask"'),
  /** Nothing overrides the rule, and an answer to its question cannot become a rule. */
  pinned: z.boolean().optional(),
});
