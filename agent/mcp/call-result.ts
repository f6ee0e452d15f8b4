/** A part of a tool's result. */
type ResultPart =
  | { type: 'text'; text: string }
  | { type: 'image' | 'audio'; data: string; mimeType: string }
  | {
      type: 'resource';
      resource: { uri: string; mimeType?: string | undefined } & ({ text: string } | { blob: string });
    }
  | {
      type: 'resource_link';
      uri: string;
      name: string;
      mimeType?: string | undefined;
      description?: string | undefined;
    };

/** A tool's result. Of the SDK's type what is used, because projects without the SDK read these declarations, too. */
export interface CallResult {
  content: ResultPart[];
  structuredContent?: Record<string, unknown> | undefined;
  isError?: boolean | undefined;
}
