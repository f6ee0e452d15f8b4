import type { FieldError } from '../../wire/input.ts';
import { pathFault } from '../../workspaces/paths.ts';

/** Files that no resume could check, because they are not below the workspace. */
export function fileFaults(files: readonly string[] = []): FieldError[] {
  return files.flatMap((file, at) => {
    const fault = pathFault(file);
    const field = `resume_context.files_modified_this_session[${at}]`;
    return fault === undefined ? [] : [{ field, expected: `a path below the workspace (${fault})` }];
  });
}
