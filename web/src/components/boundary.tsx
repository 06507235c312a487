// What is shown in place of a view that failed, such as one whose file a newer server no longer has.
import { Component, type ReactNode } from "react";
import { texts } from "../texts.ts";

interface BoundaryProps {
  /** What is shown; another value shows the view again. */
  view: string;
  children: ReactNode;
}

export class Boundary extends Component<BoundaryProps, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  override componentDidUpdate(before: BoundaryProps): void {
    if (before.view !== this.props.view && this.state.failed) this.setState({ failed: false });
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    return (
      <main id="main" className="empty" role="main">
        <p>{texts.broken}</p>
        <button type="button" className="primary" onClick={() => location.reload()}>
          {texts.reload}
        </button>
      </main>
    );
  }
}
