import { Tooltip } from '@base-ui/react/tooltip';
import type { ComponentProps } from 'react';

type Props = Omit<ComponentProps<'button'>, 'ref'> & {
  /** The name, which the tooltip shows, too. */
  label: string;
};

/** A button that shows an icon, with its name in a tooltip. */
export function IconButton({ label, className = '', children, ...rest }: Props) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger type="button" className={`icon-button ${className}`} aria-label={label} {...rest}>
        {children}
      </Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Positioner className="floating" sideOffset={6}>
          {/* The button has this name already. */}
          <Tooltip.Popup className="tip" aria-hidden="true">
            {label}
          </Tooltip.Popup>
        </Tooltip.Positioner>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
