// Markdown of a model, also while it grows. Nothing in it is fetched, and no markup in it is used.

import { type ComponentProps, memo, useMemo } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import rehypeSanitize from "rehype-sanitize";
import remarkGfm from "remark-gfm";
import remend from "remend";
import { Code } from "./code.js";
import { CopyButton } from "./copy.js";

const SAFE_LINK = /^(https?:|mailto:)/i;

function Anchor({ href, children }: ComponentProps<"a">) {
  if (href === undefined || !SAFE_LINK.test(href)) return <span className="dead-link">{children}</span>;
  return (
    <a href={href} target="_blank" rel="noreferrer noopener nofollow" title={href}>
      {children}
    </a>
  );
}

function Pre({ children }: ComponentProps<"pre">) {
  const child = children as { props?: { className?: string; children?: unknown } } | undefined;
  const text = String(child?.props?.children ?? "").replace(/\n$/, "");
  const language = /language-([\w+#-]+)/.exec(child?.props?.className ?? "")?.[1];
  return (
    <div className="code-block">
      <div className="code-head">
        <span>{language ?? "text"}</span>
        <CopyButton text={() => text} label="Copy code" />
      </div>
      <Code text={text} language={language} />
    </div>
  );
}

const components: Components = {
  a: Anchor,
  pre: Pre,
  // A picture would be fetched from elsewhere.
  img: ({ alt, src }) => <span className="dead-link">[image{alt ? `: ${alt}` : ""}{typeof src === "string" ? ` ${src}` : ""}]</span>,
  table: (props) => <div className="table-scroll" tabIndex={0} role="group" aria-label="Table"><table>{props.children}</table></div>,
  input: ({ checked }) => <span aria-hidden="true">{checked ? "☑ " : "☐ "}</span>,
  // Headings of an answer are below those of the page.
  h1: (props) => <h4>{props.children}</h4>,
  h2: (props) => <h4>{props.children}</h4>,
  h3: (props) => <h5>{props.children}</h5>,
  h4: (props) => <h6>{props.children}</h6>,
};

const Piece = memo(({ text }: { text: string }) => (
  <ReactMarkdown remarkPlugins={[remarkGfm]} rehypePlugins={[rehypeSanitize]} components={components}>
    {text}
  </ReactMarkdown>
));

/** Above this, a text that grows is parsed in pieces, of which only the last one changes. */
const LONG = 4_000;

/** Returns the paragraphs of a text, with fenced code in one piece. */
export function splitPieces(text: string): string[] {
  const pieces: string[] = [];
  let piece = "";
  let isFenced = false;
  for (const line of text.split(/(?<=\n)/)) {
    if (/^\s*(```|~~~)/.test(line)) isFenced = !isFenced;
    piece += line;
    if (!isFenced && line.trim() === "" && piece.length > 1_000) {
      pieces.push(piece);
      piece = "";
    }
  }
  if (piece !== "") pieces.push(piece);
  return pieces;
}

export const Markdown = memo(({ text, isGrowing }: { text: string; isGrowing: boolean }) => {
  const pieces = useMemo(() => {
    const whole = isGrowing ? remend(text) : text;
    return whole.length > LONG ? splitPieces(whole) : [whole];
  }, [text, isGrowing]);
  return (
    <div className="markdown">
      {pieces.map((piece, at) => (
        <Piece key={at} text={piece} />
      ))}
    </div>
  );
});
