import { createModels, type CustomProviders } from 'perdure';

const rehearsal = createModels({}).resolve('rehearsal/site-builder').model;

export default { acme: () => rehearsal } satisfies CustomProviders;
