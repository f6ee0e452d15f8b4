/** Bytes of a process's JavaScript heap that are in use, by its metrics at `url`. */
export async function usedHeap(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^nodejs_heap_size_used_bytes (\S+)$/m.exec(text)?.[1]);
}
