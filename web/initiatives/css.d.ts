// Vite turns an imported style sheet into a file of the chunk that imports it.
declare module '*.css' {}
