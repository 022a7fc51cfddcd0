import { useEffect, useState } from "react";
import { formatDuration } from "../lib/format.js";
import { messageOf } from "../lib/server.js";
import type { Activity } from "../model/activity.js";
import type { Link } from "../model/live-session.js";

/** How long a healed gap is mentioned. */
const MENTIONED = 8_000;

/** How the connection is, in plain words. */
export function ConnectionState({ link }: { link: Link }) {
  const { status, gapHealedAt } = link;
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (gapHealedAt === undefined) return;
    setNow(Date.now());
    const timer = setTimeout(() => setNow(Date.now()), MENTIONED + 100);
    return () => clearTimeout(timer);
  }, [gapHealedAt]);
  const isHealed = gapHealedAt !== undefined && now - gapHealedAt < MENTIONED;
  switch (status.type) {
    case "connecting":
      return <span className="connection is-busy" role="status">connecting</span>;
    case "live":
      return (
        <span className={`connection ${isHealed ? "is-healed" : "is-live"}`} role="status" title={link.seq === undefined ? "" : `Record ${link.seq}`}>
          {isHealed ? "gap healed" : "connected"}
        </span>
      );
    case "behind":
      return <span className="connection is-busy" role="status">behind by {status.records}</span>;
    case "reconnecting":
      return <span className="connection is-lost" role="status" title={messageOf(status.error)}>reconnecting</span>;
    case "ended":
      return <span className="connection is-lost" role="status" title={status.reason}>ended</span>;
  }
}

/** What the agent does now. */
export function Now({ activities, href }: { activities: readonly Activity[]; href: (activity: Activity) => string }) {
  const [now, setNow] = useState(Date.now);
  const isBusy = activities.length > 0;
  useEffect(() => {
    if (!isBusy) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [isBusy]);
  const first = activities[0];
  if (first === undefined) return null;
  return (
    <a className={`now ${first.isWaiting ? "is-waiting" : ""}`} href={href(first)}>
      <span className="pulse" aria-hidden="true" />
      <b>{first.isWaiting ? "Waits for you" : "Now"}</b>
      <span className="now-words">{activities.slice(0, 2).map((it) => it.words).join("  ·  ")}</span>
      {first.since !== undefined && now > first.since && now - first.since < 86_400_000 && <span className="time">{formatDuration(now - first.since)}</span>}
      {activities.length > 2 && <span className="dim">and {activities.length - 2} more</span>}
    </a>
  );
}
