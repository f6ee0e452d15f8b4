// perdure/client: typed commands for backend services.
export { PerdureError } from '../domain/errors.ts';
export type { OpenSession, RendezvousEvent } from '../domain/rendezvous.ts';
export type { SessionView } from '../store/sessions.ts';
export type { Catalog } from './catalog.ts';
export { type ClientOptions, createClient, type OpenInput, PerdureClient } from './client.ts';
export type { CommandOptions, Commands } from './commands.ts';
export type { MessageInput } from './message.ts';
export type { MessageFilter, Page, Reads } from './reads.ts';
export type { Submitted } from './submission.ts';
export { temporalClient } from './temporal.ts';
export type { TurnEvent } from './turns.ts';
