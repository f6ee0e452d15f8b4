// perdure/testing: test your agents without a provider.
export type { Script, ScriptContext, ScriptedStep } from '../../agent/models/script-provider.ts';
export { type RunTurnOptions, runTurn } from './run-turn.ts';
export { scriptedModel } from './scripted-model.ts';
export { startTestServer, type TestServer, type TestServerOptions } from './test-server.ts';
export type { TestToolCall, TestTurn } from './turn.ts';
