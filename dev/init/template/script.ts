// Plays the model while there is no key of a provider: .env.development names it. Each turn begins at step 0.
import type { Script } from 'perdure/testing';

const script: Script = ({ step, text, outcomes }) => {
  const dice = Number(/\d+/.exec(text)?.[0] ?? 2);
  if (step === 0) return { text: 'Rolling.', calls: [{ tool: 'roll', input: { dice } }] };
  return `The dice say ${JSON.stringify(outcomes.at(-1)?.output)}. (No model wrote this, but script.ts.)`;
};

export default script;
