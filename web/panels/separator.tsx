import type { KeyboardEvent, PointerEvent } from 'react';
import { LEAST_SHARE, MOST_SHARE, panelState, USUAL_SHARE } from './panel-state.ts';

const STEP = 2;
const PERCENT = 100;

/** Between conversation and panel: dragged, or moved with the arrow keys, it makes the panel wider or narrower. */
export function Separator({ share }: { share: number }) {
  const onKeyDown = (event: KeyboardEvent) => {
    const next = {
      ArrowLeft: share + STEP,
      ArrowRight: share - STEP,
      Home: LEAST_SHARE,
      End: MOST_SHARE,
      Enter: USUAL_SHARE,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    panelState.resize(next);
  };
  const onPointerMove = ({ currentTarget, pointerId, clientX }: PointerEvent<HTMLElement>) => {
    const row = currentTarget.closest('.work');
    if (row === null || !currentTarget.hasPointerCapture(pointerId)) return;
    const { right, width } = row.getBoundingClientRect();
    panelState.resize(((right - clientX) / width) * PERCENT);
  };
  return (
    <div
      className="separator"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the panel"
      aria-controls="panel"
      aria-valuenow={share}
      aria-valuemin={LEAST_SHARE}
      aria-valuemax={MOST_SHARE}
      aria-valuetext={`${share} percent`}
      tabIndex={0}
      onKeyDown={onKeyDown}
      // Captured, the pointer may also move over a preview's frame.
      onPointerDown={({ currentTarget, pointerId }) => currentTarget.setPointerCapture(pointerId)}
      onPointerMove={onPointerMove}
      onDoubleClick={() => panelState.resize(USUAL_SHARE)}
    />
  );
}
