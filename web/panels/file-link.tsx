import type { ComponentProps, MouseEvent } from 'react';
import type { SessionFiles } from '../session/session-files.ts';

interface Props extends Omit<ComponentProps<'a'>, 'href' | 'target' | 'rel' | 'onClick'> {
  files: SessionFiles;
  /** The URL as it is known now. */
  url: () => string | undefined;
}

/** Opens a file of the workspace in a tab of its own. URLs of files are valid for an hour: older ones are read again first. */
export function FileLink({ files, url, children, ...rest }: Props) {
  const onClick = async (event: MouseEvent) => {
    if (!files.isStale) return;
    event.preventDefault();
    await files.refresh({ again: true });
    window.open(url(), '_blank', 'noopener');
  };
  return (
    <a {...rest} href={url()} target="_blank" rel="noopener" onClick={(event) => void onClick(event)}>
      {children}
    </a>
  );
}
