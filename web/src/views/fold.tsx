import type { ReactNode } from "react";
import { Icon, type IconName } from "../parts/icon.js";

export interface FoldProps {
  readonly icon: IconName;
  readonly kind: string;
  readonly name: string;
  readonly title: string;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  /** At the end of the line. */
  readonly after?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** One line that opens. */
export function Fold({ icon, kind, name, title, isOpen, onToggle, after, actions, children }: FoldProps) {
  return (
    <div className={`fold fold-${kind} ${isOpen ? "is-open" : ""}`}>
      <div className="fold-line">
        <button type="button" className="fold-button" aria-expanded={isOpen} onClick={onToggle}>
          <Icon name={icon} />
          <span className="fold-name">{name}</span>
          <span className="fold-title">{title}</span>
          <span className="fold-after">{after}</span>
          <Icon name="chevron" className={isOpen ? "chevron turned" : "chevron"} />
        </button>
        {actions}
      </div>
      {isOpen && <div className="fold-body">{children}</div>}
    </div>
  );
}
