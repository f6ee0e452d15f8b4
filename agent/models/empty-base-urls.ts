// Import this before the AI SDK's providers: they read their base URLs from the environment while they load, and throw
// if one is empty. Empty means unset here.
for (const name of ['OPENAI_BASE_URL', 'ANTHROPIC_BASE_URL']) {
  if (process.env[name]?.trim() === '') delete process.env[name];
}
