import type { PickedModel } from '../api/api.ts';
import type { View } from '../session/view.ts';

interface Props {
  view: View;
  onChoose: (choice: PickedModel | null) => void;
}

/** Which model answers the next messages of this tab. Absent where there is nothing to choose. */
export function ModelPicker({ view, onChoose }: Props) {
  const { offered, model: chosen, agent, lastModel } = view;
  if (offered === null || !canChooseModel(view)) return null;
  const choices = offered.items.flatMap(({ model, variants }): PickedModel[] => [
    { model },
    ...variants.map((variant) => ({ model, variant })),
  ]);
  const at = choices.findIndex(({ model, variant }) => model === chosen?.model && variant === chosen.variant);
  const first = (agent === null ? undefined : offered.agents[agent]) ?? offered.default;
  return (
    <label className="picker">
      Model{' '}
      <select value={at} onChange={(event) => onChoose(choices[Number(event.target.value)] ?? null)}>
        <option value={-1}>as before{lastModel === null && first !== null ? `, at first ${first}` : ''}</option>
        {choices.map(({ model, variant }, index) => (
          <option key={index} value={index}>
            {variant === undefined ? model : `${model}, ${variant}`}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Whether there is another model than the session's, or a variant. */
export function canChooseModel({ offered, isChild, lastModel }: View): boolean {
  const items = offered?.items ?? [];
  const isOther = lastModel !== null && items.every(({ model }) => model !== lastModel);
  return !isChild && (items.length > (isOther ? 0 : 1) || items.some(({ variants }) => variants.length > 0));
}
