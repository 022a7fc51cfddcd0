import { useState } from "react";
import { createRoot } from "react-dom/client";
import { ConversationProvider, useBlock, useBlockIds, useSession, useSessions } from "threadfold/react";

const url = location.origin;
const token = new URLSearchParams(location.hash.slice(1)).get("token");

function Block({ id }) {
  const block = useBlock(id);
  if (block === undefined) return null;
  const text = block.content ?? block.inputText ?? block.output ?? block.toolName ?? "";
  return <pre data-type={block.type}>{typeof text === "string" ? text : JSON.stringify(text)}</pre>;
}

function Blocks() {
  return useBlockIds().map((id) => <Block key={id} id={id} />);
}

function Session({ session }) {
  const source = { url, token, session };
  const { status, state } = useSession(source);
  return (
    <ConversationProvider source={source}>
      <p>{status.type}, {state.subagents.length} subagents</p>
      <Blocks />
    </ConversationProvider>
  );
}

function Page() {
  const { sessions } = useSessions({ url, token });
  const [chosen, choose] = useState();
  const session = chosen ?? sessions[0]?.id;
  return (
    <>
      {sessions.map(({ id, title }) => <button key={id} onClick={() => choose(id)}>{title ?? id}</button>)}
      {session && <Session key={session} session={session} />}
    </>
  );
}

createRoot(document.getElementById("root")).render(<Page />);
