/** A state in words, with a colour beside it. */
export function WorkState({ state }: { state: string }) {
  return (
    <span className="work-state" data-state={state}>
      {state}
    </span>
  );
}
