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
  const choices = choicesOf(view);
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
export function canChooseModel(view: View): boolean {
  const choices = choicesOf(view);
  const isOther = view.lastModel !== null && choices.every(({ model }) => model !== view.lastModel);
  return !view.isChild && choices.length > (isOther ? 0 : 1);
}

function choicesOf({ offered }: View): PickedModel[] {
  if (offered === null) return [];
  return offered.items.flatMap(({ model, variants }): PickedModel[] => [
    { model },
    ...variants.map((variant) => ({ model, variant })),
  ]);
}
