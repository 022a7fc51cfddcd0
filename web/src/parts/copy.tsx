import { useState } from "react";
import { announce } from "../lib/announce.js";
import { Icon } from "./icon.js";

/** A button that copies a text. */
export function CopyButton({ text, label = "Copy", icon = "copy" }: { text: () => string; label?: string; icon?: "copy" | "link" }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      setCopied(true);
      announce("Copied");
      setTimeout(() => setCopied(false), 1_200);
    } catch {
      announce("The browser does not allow copying");
    }
  };
  return (
    <button type="button" className="quiet icon-button" title={label} aria-label={label} onClick={() => void copy()}>
      <Icon name={isCopied ? "check" : icon} />
    </button>
  );
}
