import type { PickedModel, Offered } from '../api/api.ts';

interface Props {
  offered: Offered;
  chosen: PickedModel | null;
  onChoose: (choice: PickedModel | null) => void;
}

/** Which model answers the next messages of this tab. Absent where there is nothing to choose. */
export function ModelPicker({ offered, chosen, onChoose }: Props) {
  const choices = offered.items.flatMap(({ model, variants }): PickedModel[] => [
    { model },
    ...variants.map((variant) => ({ model, variant })),
  ]);
  if (choices.length < 2) return null;
  const at = choices.findIndex(({ model, variant }) => model === chosen?.model && variant === chosen.variant);
  return (
    <label className="picker">
      Model{' '}
      <select value={at} onChange={(event) => onChoose(choices[Number(event.target.value)] ?? null)}>
        <option value={-1}>as before{offered.default === null ? '' : `, at first ${offered.default}`}</option>
        {choices.map(({ model, variant }, index) => (
          <option key={index} value={index}>
            {variant === undefined ? model : `${model}, ${variant}`}
          </option>
        ))}
      </select>
    </label>
  );
}
