import type { TokenUsage } from "threadfold/slim";
import { formatCost, formatCount, totalTokens } from "../lib/format.js";

/** Tokens by kind, and what they cost if that is known. */
export function Tokens({ usage, cost, isEstimate = true }: { usage: TokenUsage; cost: number | undefined; isEstimate?: boolean }) {
  if (totalTokens(usage) === 0 && (cost === undefined || isEstimate)) return null;
  const { inputTokens, outputTokens, cacheReadTokens, cacheCreationTokens } = usage;
  const kinds = [
    ["in", inputTokens, "input tokens"],
    ["cached", cacheReadTokens, "input tokens read from the cache"],
    ["written", cacheCreationTokens, "input tokens written to the cache"],
    ["out", outputTokens, "output tokens"],
  ] as const;
  return (
    <span className="tokens">
      {kinds.map(([name, count, title]) =>
        count === 0 ? null : (
          <span key={name} title={`${count.toLocaleString("en")} ${title}`}>
            <b>{formatCount(count)}</b> {name}
          </span>
        ),
      )}
      {cost !== undefined && (
        <span title={isEstimate ? "A share of the session's cost, by tokens: agents report one cost for all" : "As the agent reports it"}>
          <b>
            {isEstimate ? "≈ " : ""}
            {formatCost(cost)}
          </b>
        </span>
      )}
    </span>
  );
}
