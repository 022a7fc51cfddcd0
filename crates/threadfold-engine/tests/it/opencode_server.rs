//! A real OpenCode server, followed over an unreliable connection.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use threadfold_convert::opencode;
use threadfold_core::{ConversationState, SessionId};
use threadfold_engine::agents::opencode::OpencodeServer;
use threadfold_engine::{ServerError, Session};
use threadfold_fold::parity::{Verdict, compare};
use threadfold_fold::{EnvironmentState, RecordKind, SessionFile, parse_transcript};
use threadfold_store::{Limit, MemoryStore, Store};
use threadfold_testkit::{
    AgentHome, Availability, OpenCode, ScriptedModel, Server, opencode_scripts, report_skipped,
};
use tokio::sync::oneshot;

use crate::recordings::open;

/// How long the end of a run may take to be seen.
const LIMIT: Duration = Duration::from_secs(30);

/// A proxy that can be cut at any time.
struct Wire {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let known = connections.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || hand_on(from, to));
                }
                known.lock().unwrap().push(client);
            }
        });
        Self { address, connections }
    }

    fn cut(&self) -> usize {
        let connections: Vec<TcpStream> = self.connections.lock().unwrap().drain(..).collect();
        connections.iter().filter(|it| it.shutdown(Shutdown::Both).is_ok()).count()
    }
}

fn hand_on(mut from: TcpStream, mut to: TcpStream) {
    let mut chunk = [0; 4096];
    let copied: io::Result<()> = loop {
        match from.read(&mut chunk) {
            Ok(0) => break Ok(()),
            Ok(count) => {
                if let Err(error) = to.write_all(&chunk[..count]) {
                    break Err(error);
                }
            }
            Err(error) => break Err(error),
        }
    };
    // Either side may be gone already.
    drop((copied, to.shutdown(Shutdown::Both)));
}

fn opencode() -> Option<OpenCode> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    match OpenCode::find(&target.join("agents")).unwrap() {
        Availability::Found(opencode) => Some(opencode),
        Availability::Unavailable(reason) => {
            report_skipped(target, "real OpenCode", &reason).unwrap();
            None
        }
    }
}

/// Returns the state folded from the server's API.
fn told(server: &Server<'_>, folder: &Path, session: &str) -> ConversationState {
    let mut sessions = vec![session.to_owned()];
    sessions.extend(server.descendants(folder, session).unwrap());
    let mut answers = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let info = server.session(folder, session).unwrap();
        answers.push((format!("{number}.a.session.json"), info));
        let messages = server.messages(folder, session).unwrap();
        answers.push((format!("{number}.b.messages.json"), messages));
    }
    let files: Vec<_> = answers.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    parse_transcript(opencode::AGENT, &files)
}

fn is_equal(session: &Session, told: &ConversationState) -> bool {
    let heard = session.fold().settled();
    let comparison = compare(opencode::AGENT, &heard, told);
    comparison.blocks > 0 && comparison.verdict() == Verdict::Equal
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_followed_without_loss_over_an_unreliable_connection() {
    let Some(opencode) = opencode() else { return };
    let model = ScriptedModel::builder().require_tools().scripts(opencode_scripts());
    let model = model.start().unwrap();
    let home = AgentHome::new().unwrap();
    let server = opencode.serve(&home, &model.base_url()).unwrap();
    let wire = Wire::to(server.address());
    let followed = OpencodeServer::new(&format!("http://{}", wire.address)).unwrap();
    let missing = followed.session("ses_none").await.unwrap_err();
    assert!(matches!(missing, ServerError::NoSession { .. }), "{missing}");

    for name in ["text", "subagent", "nested"] {
        let folder = home.project().join(name);
        fs::create_dir(&folder).unwrap();
        let mut bus = server.events(&folder).unwrap();
        let id = server.create_session(&folder).unwrap();
        let of = followed.session(&id).await.unwrap();
        assert_eq!(
            (of.id.as_str(), of.directory.as_str()),
            (id.as_str(), folder.to_str().unwrap())
        );

        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let name_of_session = SessionId::from(id.as_str());
        let mut session = open(&store, &name_of_session).await;
        let (stop, stopped) = oneshot::channel::<()>();
        let follower = followed.clone();
        let following = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            follower.follow(&mut session, &of, stopped).await.unwrap();
            session
        });

        server.prompt(&folder, &id, &format!("[[play:{name}]] please run")).unwrap();
        let mut cuts = 0;
        let idle = format!(r#""type":"session.idle","properties":{{"sessionID":"{id}""#);
        for (number, line) in bus.by_ref().enumerate() {
            if number % 40 == 20 {
                cuts += wire.cut();
            }
            if String::from_utf8_lossy(&line.unwrap()).contains(&idle) {
                break;
            }
        }
        while bus.next_within(Duration::from_millis(500)).is_some() {}
        wire.cut();

        let wanted = told(&server, &folder, &id);
        let end = Instant::now() + LIMIT;
        let wanted_blocks = wanted.blocks().len();
        loop {
            let head = store.head(&name_of_session).await.unwrap().unwrap().seq;
            let loaded =
                threadfold_engine::load(&store, &name_of_session, head, Default::default()).await;
            let state = loaded.unwrap().fold.settled();
            if compare(opencode::AGENT, &state, &wanted).verdict() == Verdict::Equal {
                break;
            }
            assert!(Instant::now() < end, "{name}: {wanted_blocks} blocks were not heard");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        stop.send(()).unwrap();
        let session = following.await.unwrap();
        assert!(is_equal(&session, &wanted), "{name}");
        assert!(cuts > 0, "{name}: nothing was cut");
        let told: Vec<&EnvironmentState> =
            session.query::<EnvironmentState>().unwrap().all().collect();
        assert_eq!(told.len(), 1);
        let records = store.read(&name_of_session, 0, Limit::default()).await.unwrap();
        let broken = records.iter().filter(|it| {
            it.kind == RecordKind::Observation && it.bytes.starts_with(br#"{"type":"ee:error""#)
        });
        assert!(broken.count() > 0, "{name}: that it broke is told");
    }
}
