//! Servers that nobody should trust: they get no token, are not followed elsewhere, and cannot fill
//! the memory.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::env::TestEnv;

/// A server with an answer of its own, and what it was asked.
struct StrangeServer {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl StrangeServer {
    fn new(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&asked);
        // It ends with the process of the test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = [0; 8192];
                let count = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..count]).into_owned();
                seen.lock().unwrap().push(head.clone());
                answer(&head, &mut stream);
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn send(stream: &mut TcpStream, status: &str, headers: &str) {
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n");
    // Whoever asked may be gone.
    stream.write_all(head.as_bytes()).ok();
}

/// Sends one answer until the other side closes the connection.
fn send_endlessly(stream: &mut TcpStream) {
    send(stream, "200 OK", "content-type: application/json\r\n");
    let spaces = [b' '; 1 << 16];
    while stream.write_all(&spaces).is_ok() {}
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn with_token() -> TestEnv {
    let env = TestEnv::new();
    env.write(".local/share/threadfold/token", TOKEN);
    env
}

#[test]
fn a_server_that_is_not_ours_does_not_get_the_token() {
    let env = with_token();
    // A note of a process that is gone says nothing.
    let server = StrangeServer::new(|_, stream| send(stream, "404 Not Found", ""));
    env.write(".local/share/threadfold/servers/999999999", &server.address);
    for command in ["view", "watch"] {
        env.run(&[command, &server.address]);
    }
    env.write("stream.jsonl", r#"{"type":"system","subtype":"init","session_id":"s"}"#);
    let input = File::open(env.path("stream.jsonl")).unwrap();
    let mut push = env.command(&["push", "--patience", "5", "--url", &server.address]);
    push.stdin(input).output().unwrap();
    let asked = server.asked();
    for path in ["GET /v1/status", "GET /session", "POST /v1/"] {
        assert!(asked.iter().any(|it| it.contains(path)), "{path}: {asked:?}");
    }
    assert!(!asked.iter().any(|it| it.contains(TOKEN)), "{asked:?}");
}

#[test]
fn a_server_of_this_user_gets_the_token() {
    let env = with_token();
    let server = StrangeServer::new(|_, stream| send(stream, "404 Not Found", ""));
    let note = format!(".local/share/threadfold/servers/{}", std::process::id());
    env.write(&note, &server.address);
    env.run(&["view", &server.address]);
    assert!(server.asked().iter().any(|it| it.contains(TOKEN)), "{:?}", server.asked());
}

#[test]
fn redirects_are_not_followed() {
    let env = TestEnv::new();
    let elsewhere = StrangeServer::new(|_, stream| send(stream, "404 Not Found", ""));
    let location = format!("location: {}/x\r\n", elsewhere.address);
    let server = StrangeServer::new(move |_, stream| send(stream, "302 Found", &location));
    for command in ["view", "watch"] {
        let said = env.run(&[command, &server.address]);
        assert!(said.contains("redirects to another address"), "{said}");
    }
    assert!(server.asked().len() > 1);
    assert_eq!(elsewhere.asked(), [""; 0]);
}

#[test]
fn an_endless_answer_ends_in_an_error() {
    let env = TestEnv::new();
    let ours = StrangeServer::new(|head, stream| match head.contains("/v1/") {
        true => send_endlessly(stream),
        false => send(stream, "404 Not Found", ""),
    });
    let said = env.run(&["view", &ours.address]);
    assert!(said.contains("error:"), "{said}");
    let agents = StrangeServer::new(|head, stream| match head.contains("/v1/") {
        true => send(stream, "404 Not Found", ""),
        false => send_endlessly(stream),
    });
    let said = env.run(&["view", &agents.address]);
    assert!(said.contains("in one answer"), "{said}");
}

#[test]
fn an_address_in_place_of_a_file_is_shown_without_its_password() {
    let env = TestEnv::new();
    for arguments in
        [["import", "http://opencode:s3cr3t@127.0.0.1:1/"], ["view", "ftp://u:s3cr3t@h/x"]]
    {
        let said = env.run(&arguments);
        assert!(said.contains("error:") && !said.contains("s3cr3t"), "{said}");
    }
}
