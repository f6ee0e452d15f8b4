import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// `npm run page`, beside `npm run dev`. PERDURE_URL: the address that `perdure dev` printed, if it is another.
const target = process.env['PERDURE_URL'] ?? 'http://127.0.0.1:8787';

export default defineConfig({
  root: 'page',
  plugins: [react()],
  // The host accepts requests of its own pages: Host and Origin must stay the same.
  server: { proxy: { '/api': { target, changeOrigin: false } } },
});
