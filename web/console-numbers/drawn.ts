/** A colour of the page's design. */
type Colour = 'accent' | 'good' | 'warn' | 'bad' | 'faint' | 'ink';

/** Values of the parts of a time range; null: there is none. */
export interface Series {
  name: string;
  values: readonly (number | null)[];
  colour: Colour;
  /** Lengths of the dashes of a line and the gaps between them, so that it can be told without its colour. */
  dash?: readonly number[];
}

/** What a chart shows. Times in milliseconds, `from` since 1970, `step` of one part. */
export interface Drawn {
  kind: 'bars' | 'lines';
  series: readonly Series[];
  words: (value: number) => string;
  from: number;
  step: number;
}
