// Imported before the AI SDK's providers: they read their addresses from the environment while they are loaded, and throw
// where one is empty. To us that is one that is not set.
for (const name of ['OPENAI_BASE_URL', 'ANTHROPIC_BASE_URL']) {
  if (process.env[name]?.trim() === '') delete process.env[name];
}
