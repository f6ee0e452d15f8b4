// perdure/host: the HTTP API as a `fetch` handler for any server.
export { createLogger, type Logger } from '../config/log.ts';
export { type CatalogParts, catalogOf } from './catalog.ts';
export type { Caller, HostParts, Identify, PageHandler } from './context.ts';
export { cookieKey } from './auth/cookie-key.ts';
export { createHost, type Host } from './host.ts';
export { loopbackUser } from './auth/loopback-user.ts';
export { type HostMetrics, hostMetrics } from './host-metrics.ts';
export { nodeListener, type NodeListener } from './node-listener.ts';
export { Previews, type PreviewSettings } from './files/previews.ts';
export { staticPage } from './http/static-page.ts';
export { type TokenSettings, tokenUser } from './auth/token-user.ts';
