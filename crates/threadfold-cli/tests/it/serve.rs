//! `threadfold serve` as a program: started, used, killed, and started again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use threadfold_client::{Client, FollowEvent};
use tokio::runtime::Runtime;

use crate::claude::Transcript;
use crate::env::TestEnv;

/// A running server.
pub(crate) struct Serving {
    process: Child,
    pub(crate) address: String,
    token: String,
}

impl Serving {
    pub(crate) fn start(env: &TestEnv) -> Self {
        Self::start_on(env, "127.0.0.1:0")
    }

    pub(crate) fn start_on(env: &TestEnv, bind: &str) -> Self {
        Self::start_with(env, bind, &[])
    }

    pub(crate) fn start_with(env: &TestEnv, bind: &str, more: &[&str]) -> Self {
        Self::start_configured(env, bind, more, |_| {})
    }

    pub(crate) fn start_configured(
        env: &TestEnv,
        bind: &str,
        more: &[&str],
        configure: impl FnOnce(&mut Command),
    ) -> Self {
        let token = env.path("token").display().to_string();
        let store = env.path("store.db").display().to_string();
        let mut command =
            env.command(&["serve", "--bind", bind, "--store", &store, "--token-file", &token]);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::null());
        configure(&mut command);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.strip_prefix("listening on ").unwrap().to_owned();
        let link = lines.next().unwrap().unwrap();
        let token = fs::read_to_string(env.path("token")).unwrap().trim().to_owned();
        assert!(link.ends_with(&format!("/#token={token}")), "{link}");
        let curl = lines.next().unwrap().unwrap();
        assert!(curl.contains("curl -H \"Authorization: Bearer $(cat '"), "{curl}");
        assert!(!curl.contains(&token), "{curl}");
        Self { process, address, token }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address, Some(self.token.clone())).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let text = self.text(path);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    pub(crate) fn text(&self, path: &str) -> String {
        self.curl(&["-X", "GET"], path)
    }

    pub(crate) fn post(&self, path: &str) -> Value {
        serde_json::from_str(&self.curl(&["-X", "POST"], path)).unwrap()
    }

    fn curl(&self, arguments: &[&str], path: &str) -> String {
        self.at().curl(arguments, path)
    }

    /// Returns where the server is, for a thread of its own.
    pub(crate) fn at(&self) -> ServerAddress {
        ServerAddress { address: self.address.clone(), token: self.token.clone() }
    }

    fn delete(&self, id: &str) {
        let shown = ["-X", "DELETE", "-o", "/dev/null", "-w", "%{http_code}"];
        assert_eq!(self.curl(&shown, &format!("/v1/sessions/{id}")), "204");
    }

    /// Waits until a request answers as wanted.
    pub(crate) fn wait(&self, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let answer = self.get(path);
            if is_wanted(&answer) {
                return answer;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{path}: {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the process, as a crash would.
    pub(crate) fn kill(mut self) -> String {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.address.trim_start_matches("http://").to_owned()
    }

    /// Stops the process, and returns where it listened.
    pub(crate) fn stop_at(self) -> String {
        let address = self.address.trim_start_matches("http://").to_owned();
        assert!(self.stop());
        address
    }

    /// Asks the process to stop, and returns whether it ended well.
    fn stop(mut self) -> bool {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap().success()
    }
}

/// Where a server is, whether it runs or not.
pub(crate) struct ServerAddress {
    pub(crate) address: String,
    token: String,
}

impl ServerAddress {
    /// Returns the answer, if there is one.
    pub(crate) fn try_post(&self, path: &str) -> Option<Value> {
        serde_json::from_str(&self.curl(&["-X", "POST"], path)).ok()
    }

    fn curl(&self, arguments: &[&str], path: &str) -> String {
        let run = Command::new("curl")
            .args(["-sS", "-H", &format!("Authorization: Bearer {}", self.token)])
            .args(arguments)
            .arg(format!("{}{path}", self.address))
            .output()
            .unwrap();
        String::from_utf8(run.stdout).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Returns the lines of a session with so many answers.
pub(crate) fn transcript(id: &str, answers: usize) -> String {
    let begin = Transcript::new(id).prompt(format!("the prompt of {id}"));
    let all = (0..answers).fold(begin, |it, number| it.says(&format!("answer {number}")));
    all.text()
}

fn keep(env: &TestEnv, id: &str, text: &str) {
    env.write(&format!("claude/projects/-work-project/{id}.jsonl"), text);
}

pub(crate) const ONE: &str = "11111111-1111-4111-8111-111111111111";
const TWO: &str = "22222222-2222-4222-8222-222222222222";

#[test]
fn sessions_on_disk_are_listed_imported_and_followed_live() {
    let env = TestEnv::new();
    keep(&env, ONE, &transcript(ONE, 3));
    let server = Serving::start(&env);
    let listed = server.get("/v1/sessions");
    assert_eq!(listed["total"], 1, "the first list is complete: {listed}");
    assert_eq!(listed["sessions"][0]["id"], ONE);
    assert_eq!(listed["sessions"][0]["agent"], "claude");
    server.wait("/v1/status", |it| it["import"]["isComplete"] == true);
    let before = server.get(&format!("/v1/sessions/{ONE}"))["seq"].as_u64().unwrap();

    // It grows, and a client sees that; another session appears.
    let runtime = Runtime::new().unwrap();
    let mut followed = server.client().follow(ONE);
    runtime.block_on(followed.next()).unwrap();
    keep(&env, ONE, &transcript(ONE, 6));
    while followed.mirror().cursor().is_none_or(|it| it.seq < before + 3) {
        assert_eq!(runtime.block_on(followed.next()).unwrap(), FollowEvent::Changed);
    }
    let (_, hash) = runtime.block_on(server.client().state_hash(ONE, Some(before + 3))).unwrap();
    assert_eq!(followed.mirror().state_hash(), hash);
    keep(&env, TWO, &transcript(TWO, 2));
    server.wait("/v1/sessions", |it| it["total"] == 2);
    server.wait(&format!("/v1/sessions/{TWO}"), |it| it["seq"].as_u64() >= Some(4));
    assert!(server.stop());
}

#[test]
fn a_removed_session_does_not_come_back_until_it_is_imported() {
    let env = TestEnv::new();
    keep(&env, ONE, &transcript(ONE, 3));
    keep(&env, TWO, &transcript(TWO, 3));
    let server = Serving::start(&env);
    server.wait("/v1/status", |it| it["import"]["isComplete"] == true);
    server.delete(ONE);
    assert_eq!(server.get(&format!("/v1/sessions/{ONE}"))["status"], 404);
    // Its file grows, and the other one is followed: the folder is searched.
    keep(&env, ONE, &transcript(ONE, 5));
    keep(&env, TWO, &transcript(TWO, 5));
    server.wait(&format!("/v1/sessions/{TWO}"), |it| it["seq"].as_u64() >= Some(7));
    assert_eq!(server.wait("/v1/sessions", |_| true)["total"], 1);
    server.kill();
    let server = Serving::start(&env);
    server.wait("/v1/status", |it| it["import"]["isComplete"] == true);
    assert_eq!(server.get("/v1/sessions")["total"], 1, "nor after a restart");
    server.stop();
    env.done(&["import", ONE, "--store", "store.db"]);
    let server = Serving::start(&env);
    server.wait("/v1/sessions", |it| it["total"] == 2);
}

#[test]
fn without_sessions_an_example_plays() {
    let env = TestEnv::new();
    let server = Serving::start(&env);
    server.wait("/v1/sessions", |it| it["sessions"][0]["id"] == "example");
    server.wait("/v1/sessions/example", |it| it["seq"].as_u64() >= Some(3));
    let shown = env.done(&[
        "view",
        &server.address,
        "--token-file",
        &env.path("token").display().to_string(),
        "--no-pager",
    ]);
    assert!(shown.contains("How many tests are there"), "{shown}");
}

#[test]
fn a_pushed_stream_survives_a_killed_server_and_nothing_is_lost_or_twice() {
    let env = TestEnv::new();
    let mut server = Serving::start(&env);
    let (url, token) = (server.address.clone(), env.path("token").display().to_string());
    let mut command =
        env.command(&["push", "--url", &url, "--token-file", &token, "--session", "pushed"]);
    let mut push = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = push.stdin.take().unwrap();
    let line = |number: usize| {
        let text = "x".repeat(2_000);
        format!(
            "{{\"type\":\"block:upsert\",\"payload\":{{\"block\":{{\"id\":\"b{number}\",\"type\":\"assistant_text\",\"content\":\"{text}\",\"status\":\"complete\"}}}}}}\n"
        )
    };
    let mut written = 0;
    for round in 0..4 {
        for _ in 0..700 {
            stdin.write_all(line(written).as_bytes()).unwrap();
            written += 1;
        }
        stdin.flush().unwrap();
        if round < 3 {
            let address = server.kill();
            // More than the memory holds is written while nobody listens.
            for _ in 0..900 {
                stdin.write_all(line(written).as_bytes()).unwrap();
                written += 1;
            }
            server = Serving::start_on(&env, &address);
        }
    }
    drop(stdin);
    let ended = push.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let state = server.get("/v1/sessions/pushed/state");
    let blocks: Vec<&str> = state["state"]["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    let expected: Vec<String> = (0..written).map(|it| format!("b{it}")).collect();
    assert_eq!(blocks, expected);
    assert_eq!(state["seq"], written + 2, "a declaration, each line once, and the end");
}

#[test]
fn clients_survive_kills_of_the_server_without_a_gap() {
    let env = TestEnv::new();
    keep(&env, ONE, &transcript(ONE, 1));
    let mut server = Serving::start(&env);
    server.wait("/v1/status", |it| it["import"]["isComplete"] == true);
    let runtime = Runtime::new().unwrap();
    let mut followed = server.client().follow(ONE);
    runtime.block_on(followed.next()).unwrap();
    for round in 1..=5 {
        keep(&env, ONE, &transcript(ONE, 1 + round * 4));
        let address = server.kill();
        server = Serving::start_on(&env, &address);
        let wanted = 3 + round as u64 * 4;
        let (seq, hash) = loop {
            let (seq, hash) = runtime.block_on(server.client().state_hash(ONE, None)).unwrap();
            if seq >= wanted {
                break (seq, hash);
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        while followed.mirror().cursor().is_none_or(|it| it.seq < seq) {
            assert_eq!(runtime.block_on(followed.next()).unwrap(), FollowEvent::Changed);
        }
        assert_eq!(followed.mirror().state_hash(), hash, "after kill {round}");
    }
    assert_eq!(followed.mirror().gaps(), 0);
    assert!(followed.connects() > 5);
}

#[test]
fn the_token_file_is_private_and_an_address_of_the_network_needs_consent() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    Serving::start(&env).kill();
    let mode = fs::metadata(env.path("token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::set_permissions(env.path("token"), PermissionsExt::from_mode(0o644)).unwrap();
    let refused =
        env.told(&["serve", "--bind", "127.0.0.1:0", "--token-file", "token", "--store", "s.db"]);
    assert!(refused.contains("other users can read the token file"), "{refused}");
    let refused =
        env.told(&["serve", "--bind", "0.0.0.0:0", "--token-file", "other", "--store", "s.db"]);
    assert!(refused.contains("can be reached by other machines"), "{refused}");
}

#[test]
fn the_snippets_of_the_guide_work() {
    let env = TestEnv::new();
    keep(&env, ONE, &transcript(ONE, 3));
    let server = Serving::start(&env);
    server.wait("/v1/status", |it| it["import"]["isComplete"] == true);
    let guide = include_str!("../../../../docs/guide/server.md");
    let snippet = |language: &str| {
        let start = guide.split_once(&format!("```{language}\n")).unwrap().1;
        start.split_once("```").unwrap().0.to_owned()
    };
    for (language, program, arguments, expected) in [
        ("sh", "sh", vec!["-c"], ONE),
        ("python", "python3", vec!["-c"], "snapshot "),
        ("javascript", "node", vec!["--input-type=module", "--eval"], "snapshot "),
    ] {
        let run = Command::new(program)
            .args(arguments)
            .arg(snippet(language))
            .env("URL", &server.address)
            .env("TOKEN", &server.token)
            .output();
        let output = match run {
            Ok(output) => output,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let target = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
                threadfold_testkit::report_skipped(target, program, "it is not installed").unwrap();
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains(expected), "{language}: {output:?}");
    }
}
