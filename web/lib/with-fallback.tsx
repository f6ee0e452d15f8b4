import { Component, type ReactNode, Suspense } from 'react';

interface Props {
  fallback: ReactNode;
  children: ReactNode;
}

/**
 * Shows `fallback` while the code of its children is loaded, and if that or drawing them fails, such as what is nested too deep.
 * Without it React would take the whole page away.
 */
export class WithFallback extends Component<Props, { isFailed: boolean }> {
  override state = { isFailed: false };

  static getDerivedStateFromError(): { isFailed: boolean } {
    return { isFailed: true };
  }

  override render(): ReactNode {
    const { fallback, children } = this.props;
    return this.state.isFailed ? fallback : <Suspense fallback={fallback}>{children}</Suspense>;
  }
}
