import { modalityOf } from '../../domain/model-info.ts';
import type { ChosenModel, NewMessage } from '../../store/messages.ts';
import { type FieldError, InvalidInputError } from '../../wire/input.ts';
import { type ModelChoice } from '../../wire/requests.ts';
import { type Catalog, modelOf } from '../catalog.ts';

/** As it is stored. */
export function chosenModel({ provider_id, model_id, variant }: ModelChoice): ChosenModel {
  return { ref: `${provider_id}/${model_id}`, variant: variant ?? null };
}

/**
 * Checks a model that a caller has chosen for a turn.
 * @param field where the caller has named it
 * @throws {InvalidInputError} `ModelNotConfigured`, naming the field, and the configured models or the variants
 */
export function requireModel(catalog: Catalog | undefined, chosen: ChosenModel | null, field: string): void {
  if (catalog === undefined || chosen === null) return;
  const { ref, variant } = chosen;
  modelOf(catalog, ref, field);
  if (variant === null) return;
  const { variants = [] } = catalog.models.find(ref) ?? {};
  if (variants.includes(variant)) return;
  const expected = variants.length === 0 ? `none, because "${ref}" has no variants` : variants.join(' or ');
  throw new InvalidInputError([{ field: `${field}.variant`, expected }], 'ModelNotConfigured');
}

/** Most models that an advice names. */
const NAMED = 5;

/**
 * Checks that a message has only files which its model can take in. Files of no modality, such as archives, are not judged.
 * @param carried the model of the session, if the message names none
 * @throws {InvalidInputError} `ModalityNotSupported`, naming the parts, and other models
 */
export async function requireReadable(
  catalog: Catalog | undefined,
  { parts, model }: Pick<NewMessage, 'parts' | 'model'>,
  carried: () => Promise<string | undefined>,
): Promise<void> {
  const files = parts.flatMap(({ data }, at) => {
    const modality = data.type === 'file' ? modalityOf(String(data['mediaType'])) : undefined;
    return modality === undefined || modality === 'text' ? [] : [{ field: `parts[${at}]`, modality }];
  });
  if (catalog === undefined || files.length === 0) return;
  const ref = model?.ref ?? (await carried());
  const modalities = ref === undefined ? null : (catalog.models.find(ref)?.modalities ?? null);
  if (modalities === null) return;
  const refused: FieldError[] = files.flatMap(({ field, modality }) => {
    if (modalities.includes(modality)) return [];
    const others = catalog.models.offered().filter((other) => other.modalities?.includes(modality));
    const named = others.slice(0, NAMED).map((other) => other.model);
    const advice = named.length > 0 ? `, or choose a model that takes it, such as ${named.join(', ')}` : '';
    const expected = `${modalities.join(' or ')}, which the model "${ref}" takes, not ${modality}: leave it out${advice}`;
    return [{ field, expected }];
  });
  if (refused.length > 0) throw new InvalidInputError(refused, 'ModalityNotSupported');
}
