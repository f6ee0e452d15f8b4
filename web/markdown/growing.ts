import { createContext } from 'react';

/** Whether what is rendered is still being written: a block of an answer, or the input of a tool. */
export const Growing = createContext(false);
