import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { createModels, type CustomProviders } from 'perdure';

const rehearsal = createModels({}).resolve('rehearsal/site-builder').model;

/** The rehearsal model; after its first words it waits until a reader, who has them, makes the folder `HEARD`. */
const patient: typeof rehearsal = {
  ...rehearsal,
  doStream: async (options) => {
    const { stream, ...rest } = await rehearsal.doStream(options);
    const waiting: typeof stream = stream.pipeThrough(
      new TransformStream({
        async transform(part, controller) {
          controller.enqueue(part);
          if (part.type === 'text-delta') while (!existsSync(process.env['HEARD']!)) await delay(20);
        },
      }),
    );
    return { ...rest, stream: waiting };
  },
};

export default { acme: () => patient } satisfies CustomProviders;
