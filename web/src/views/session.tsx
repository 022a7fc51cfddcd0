// One session: where the user is in it, what it does, and the view of it that was chosen.

import { lazy, Suspense, useEffect, useMemo, useRef } from "react";
import type { ConversationState } from "threadfold/slim";
import { announce } from "../lib/announce.js";
import { firstLine, formatDuration, plural } from "../lib/format.js";
import { useKeys } from "../lib/keys.js";
import { formatRoute, go, type SessionRoute } from "../lib/route.js";
import { isUnauthorized, messageOf, type Server } from "../lib/server.js";
import { changeSettings, useSettings } from "../lib/settings.js";
import { activitiesOf } from "../model/activity.js";
import { type Details, NO_TOKENS, useDetails } from "../model/details.js";
import { type LiveSession, useLink, useLiveSession, useStoreState } from "../model/live-session.js";
import { conversationOf, isRunning, nameOf, pathTo } from "../model/subagents.js";
import { Icon } from "../parts/icon.js";
import { Tokens } from "../parts/tokens.js";
import { Conversation } from "./conversation.js";
import { TokenNeeded } from "./problems.js";
import { offerBlocks } from "./palette-source.js";
import { ConnectionState, Now } from "./status.js";
import { Scrubber, usePast, usePastState } from "./travel.js";

const Timeline = lazy(() => import("./timeline.js"));

export function SessionView({ server, route }: { server: Server; route: SessionRoute }) {
  const live = useLiveSession(server, route.session);
  if (live === undefined) return <p className="empty" role="status">Connecting…</p>;
  return <OpenSession server={server} route={route} live={live} />;
}

function OpenSession({ server, route, live }: { server: Server; route: SessionRoute; live: LiveSession }) {
  const state = useStoreState(live.store);
  const link = useLink(live);
  const details = useDetails(server, route.session, link.seq);
  const isPast = route.at !== undefined;
  const past = usePast(server, route.session, isPast, link.seq);
  const pastState = usePastState(past, route.at);
  const shown = isPast ? (pastState?.state ?? state) : state;
  const activities = useMemo(() => (isPast ? [] : activitiesOf(state)), [state, isPast]);
  useAnnouncement(activities.length > 0);
  useEffect(() => offerBlocks({ state: shown, route }), [shown, route]);
  useEffect(() => {
    live.shown = isPast ? pastState?.state : state;
  }, [live, isPast, pastState, state]);
  useEffect(() => {
    document.title = `${details?.title ?? route.session} · Threadfold`;
  }, [details?.title, route.session]);
  useKeys([
    { keys: ["t"], label: "Time travel", run: () => go({ ...route, at: isPast ? undefined : link.seq, block: undefined }) },
    { keys: ["v"], label: "Conversation or timeline", run: () => go({ ...route, view: route.view === "timeline" ? "conversation" : "timeline" }) },
    { keys: ["m"], label: "What the model saw", run: () => toggleModelOnly() },
    { keys: ["u", "Backspace"], label: "Up to the caller, or the list", run: () => go(parentOf(shown, route)) },
  ]);
  const { status } = link;
  if (status.type === "ended" && "error" in status && link.seq === undefined) {
    if (isUnauthorized(status.error)) return <TokenNeeded />;
    return (
      <div className="empty" role="alert">
        <h2>This session cannot be shown</h2>
        <p>{messageOf(status.error)}</p>
        <p><a href="#/">All sessions</a></p>
      </div>
    );
  }
  const isLoading = link.seq === undefined || (isPast && pastState === undefined);
  return (
    <div className="session">
      <Header route={route} details={details} state={shown} link={<ConnectionState link={link} />} seq={link.seq} />
      {!isPast && <Now activities={activities} href={(it) => formatRoute({ ...route, view: "conversation", conversation: it.conversation === "main" ? undefined : it.conversation, block: it.block })} />}
      {isPast && (
        <p className="past-notice" role="status">
          You look at the past. <button type="button" className="as-link" onClick={() => go({ ...route, at: undefined })}>Live again</button>
        </p>
      )}
      <main className="session-body" id="content">
        {isLoading ? (
          <p className="empty" role="status">{isPast ? "Reading the past…" : "Loading the session…"}</p>
        ) : route.view === "timeline" ? (
          <Suspense fallback={<p className="empty" role="status">Loading the timeline…</p>}>
            <Timeline state={shown} details={details} route={route} />
          </Suspense>
        ) : (
          <Conversation key={`${route.session} ${route.conversation ?? "main"}`} state={shown} details={details} route={route} changed={isPast ? pastState?.changed : undefined} />
        )}
      </main>
      {isPast && <Scrubber past={past} route={route} />}
    </div>
  );
}

function toggleModelOnly(): void {
  const button = document.querySelector<HTMLButtonElement>("[data-setting=model-only]");
  button?.click();
}

/** Tells a screen reader when the agent has finished, and not each word. */
function useAnnouncement(isBusy: boolean): void {
  const wasBusy = useRef(false);
  useEffect(() => {
    if (wasBusy.current && !isBusy) announce("The agent has finished");
    wasBusy.current = isBusy;
  }, [isBusy]);
}

/** Returns where "up" leads. */
function parentOf(state: ConversationState, route: SessionRoute) {
  if (route.conversation === undefined) return { page: "sessions" } as const;
  const path = pathTo(state, route.conversation);
  const parent = path.at(-2);
  return { ...route, block: undefined, conversation: parent === undefined ? undefined : conversationOf(parent) };
}

interface HeaderProps {
  readonly route: SessionRoute;
  readonly details: Details | undefined;
  readonly state: ConversationState;
  readonly link: React.ReactNode;
  readonly seq: number | undefined;
}

function Header({ route, details, state, link, seq }: HeaderProps) {
  const { modelOnly, noise } = useSettings();
  const path = pathTo(state, route.conversation);
  const subagent = path.at(-1);
  const name = subagent === undefined ? "main" : conversationOf(subagent);
  const title = details?.title ?? route.session;
  const usage = details?.conversations.get(name);
  const to = (change: Partial<SessionRoute>) => formatRoute({ ...route, block: undefined, ...change });
  return (
    <header className="session-head">
      <nav className="crumbs" aria-label="Where you are">
        <a href="#/" aria-label="All sessions"><Icon name="home" /><span>Sessions</span></a>
        <Icon name="chevron" className="crumb-mark" />
        {path.length === 0 ? <h1 title={title}>{firstLine(title, 160)}</h1> : <a href={to({ conversation: undefined })}>{firstLine(title, 60)}</a>}
        {path.map((it, at) => (
          <span key={conversationOf(it)} className="crumb">
            <Icon name="chevron" className="crumb-mark" />
            {at === path.length - 1 ? <h1>{firstLine(nameOf(state, it), 120)}</h1> : <a href={to({ conversation: conversationOf(it) })}>{firstLine(nameOf(state, it), 40)}</a>}
          </span>
        ))}
        {link}
      </nav>
      <div className="facts">
        {subagent === undefined ? (
          <>
            {details?.row.agent != null && <span className="agent-name">{details.row.agent}</span>}
            {details?.model !== undefined && <span>{details.model}</span>}
            {details?.folder !== undefined && <span className="path" title={details.folder}>{details.folder}</span>}
            <span>{plural(state.blocks.length, "block")}</span>
            {state.subagents.length > 0 && <span>{plural(state.subagents.filter((it) => it.internal !== true).length, "subagent")}</span>}
            {details?.row.usage != null && route.at === undefined && <Tokens usage={details.row.usage} cost={details.costUsd} isEstimate={false} />}
          </>
        ) : (
          <>
            <span className={isRunning(subagent) ? "running" : ""}>{isRunning(subagent) ? "running" : subagent.status}</span>
            <span>{plural(subagent.blocks.length, "block")}</span>
            {subagent.durationMs !== undefined && <span>{formatDuration(subagent.durationMs)}</span>}
            {usage !== undefined && <Tokens usage={usage ?? NO_TOKENS} cost={undefined} />}
          </>
        )}
      </div>
      <div className="tabs">
        <nav aria-label="Views">
          <a href={to({ view: "conversation" })} aria-current={route.view === "conversation" ? "page" : undefined}>Conversation</a>
          <a href={to({ view: "timeline" })} aria-current={route.view === "timeline" ? "page" : undefined}>Timeline</a>
        </nav>
        <span className="spring" />
        <button type="button" className="switch" data-setting="model-only" aria-pressed={modelOnly} title="Hide what is out of the model's context (m)" onClick={() => changeSettings({ modelOnly: !modelOnly })}>
          What the model saw
        </button>
        <button type="button" className="switch" aria-pressed={noise} title="Show hooks, commands and other notices" onClick={() => changeSettings({ noise: !noise })}>
          Notices
        </button>
        <button type="button" className="switch" aria-pressed={route.at !== undefined} disabled={seq === undefined} title="Time travel (t)" onClick={() => go({ ...route, block: undefined, at: route.at === undefined ? seq : undefined })}>
          <Icon name="clock" /> Time travel
        </button>
      </div>
    </header>
  );
}
