//! One server of several.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use threadfold_client::Client;

use crate::env::TestEnv;

/// Where a node runs, and what it uses.
pub(crate) struct NodePlace<'a> {
    /// Its home folder, with the token that all nodes share.
    pub(crate) env: &'a TestEnv,
    pub(crate) store: &'a str,
    /// Other addresses under which clients reach it.
    pub(crate) public_urls: &'a [String],
    /// Its network namespace, and the address on which it listens there.
    pub(crate) network: Option<(&'a str, SocketAddr)>,
    /// Whether it sees other processes, as on one machine. It does not on another one, where a
    /// dead holder is noticed only when its lease expires.
    pub(crate) sees_others: bool,
}

/// A running server.
pub(crate) struct Node {
    process: Child,
    pub(crate) address: SocketAddr,
    token: String,
}

impl Node {
    pub(crate) fn start(place: &NodePlace<'_>) -> Self {
        Self::start_with(place, &[])
    }

    pub(crate) fn start_with(place: &NodePlace<'_>, more: &[&str]) -> Self {
        let NodePlace { env, store, public_urls, network, sees_others } = place;
        let token = env.path("token").display().to_string();
        let bind = network.map_or("127.0.0.1:0".to_owned(), |it| it.1.to_string());
        let mut inner = env.command(&["serve", "--bind", &bind, "--token-file", &token]);
        inner.env("THREADFOLD_LOG", "warn").args(more);
        for url in *public_urls {
            inner.args(["--public-url", url]);
        }
        if network.is_some() {
            inner.arg("--allow-remote");
        }
        let mut wrapped = match network {
            Some((name, _)) => wrap(&["ip", "netns", "exec", name], &inner),
            None => inner,
        };
        if !sees_others {
            let words = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child=KILL", "--"];
            wrapped = wrap(&words, &wrapped);
        }
        let log = fs::OpenOptions::new().create(true).append(true).open(env.path("node.log"));
        wrapped.env("THREADFOLD_STORE", store).stdout(Stdio::piped()).stderr(log.unwrap());
        let mut process = wrapped.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next();
        let Some(Ok(first)) = first else {
            panic!("it did not start: {}", fs::read_to_string(env.path("node.log")).unwrap())
        };
        let address = first.strip_prefix("listening on http://").unwrap().parse().unwrap();
        let token = fs::read_to_string(env.path("token")).unwrap().trim().to_owned();
        Self { process, address, token }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), Some(self.token.clone())).unwrap()
    }

    /// Returns the status and the body of an answer.
    pub(crate) fn ask(&self, method: &str, path: &str) -> (u16, String) {
        let run = Command::new("curl")
            .args(["-sS", "--max-time", "20", "-X", method, "-w", "\n%{http_code}"])
            .args(["-H", &format!("Authorization: Bearer {}", self.token)])
            .arg(format!("{}{path}", self.url()))
            .output()
            .unwrap();
        let text = String::from_utf8(run.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), body.to_owned())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path);
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{status} {error}: {body}"))
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
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Asks the process to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Returns a command that runs another one, with its folder and its environment.
fn wrap(words: &[&str], inner: &Command) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(folder) = inner.get_current_dir() {
        command.current_dir(folder);
    }
    command.stdin(Stdio::null());
    command
}
