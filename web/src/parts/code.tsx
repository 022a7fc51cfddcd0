import { memo, useEffect, useState } from "react";
import type { Token } from "./highlight.js";

/** Longer code is shown without colours. */
const LONGEST = 30_000;

/** Code, coloured as soon as the highlighter is loaded. */
export const Code = memo(({ text, language }: { text: string; language: string | undefined }) => {
  const [lines, setLines] = useState<{ text: string; tokens: Token[][] }>();
  useEffect(() => {
    if (language === undefined || text.length > LONGEST) return;
    let isCurrent = true;
    void import("./highlight.js")
      .then((it) => it.highlight(text, language))
      .then((tokens) => {
        if (isCurrent && tokens !== undefined) setLines({ text, tokens });
      });
    return () => {
      isCurrent = false;
    };
  }, [text, language]);
  const isColoured = lines !== undefined && lines.text === text;
  return (
    <pre className="code" tabIndex={0} aria-label={language === undefined ? "Text" : `Code, ${language}`}>
      <code>
        {isColoured
          ? lines.tokens.map((line, at) => (
              <span key={at}>
                {line.map((token, index) => (
                  <span key={index} className={token.kind}>
                    {token.text}
                  </span>
                ))}
                {"\n"}
              </span>
            ))
          : text}
      </code>
    </pre>
  );
});
