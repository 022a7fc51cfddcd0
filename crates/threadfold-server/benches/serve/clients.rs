//! The process of the clients: many connections that count what they receive, and do little else,
//! so that the server is what is measured.

use std::cell::RefCell;
use std::io::{self, BufRead, Write};
use std::rc::Rc;
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::events::{DIGITS, STAMP, now};
use crate::process::{DONE, invalid};

const READ: usize = 256 << 10;
/// How many connections are opened at once.
const OPENED_AT_ONCE: usize = 64;

/// What all connections count together.
struct Counts {
    /// The connections that read.
    reading: usize,
    /// How many events a session gets in a batch.
    batch: u64,
    /// How many connections have received each batch.
    batches: Vec<usize>,
    is_timed: bool,
    /// Nanoseconds from publishing to reading, of each delivery.
    times: Vec<u64>,
    gaps: usize,
    buffer: Vec<u8>,
}

pub(crate) fn run(address: &str, numbers: [&str; 4]) -> io::Result<()> {
    let mut parsed = [0; 4];
    for (number, text) in parsed.iter_mut().zip(numbers) {
        *number = text.parse().map_err(invalid)?;
    }
    let [sessions, connections, stalled, batch] = parsed;
    let counts = Rc::new(RefCell::new(Counts {
        reading: connections - stalled,
        batch: batch as u64,
        batches: Vec::new(),
        is_timed: false,
        times: Vec::new(),
        gaps: 0,
        buffer: vec![0; READ],
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let mut held = Vec::new();
        let mut number = 0;
        while number < connections {
            let end = (number + OPENED_AT_ONCE).min(connections);
            let opening = (number..end).map(|it| open(address, it % sessions));
            for (offset, opened) in
                futures_util::future::join_all(opening).await.into_iter().enumerate()
            {
                let connection = opened?;
                match number + offset < stalled {
                    true => held.push(connection),
                    false => drop(tokio::task::spawn_local(follow(connection, counts.clone()))),
                }
            }
            number = end;
        }
        println!("ready");
        obey(&counts).await
    })
}

/// Does what the benchmark asks for on stdin.
async fn obey(counts: &RefCell<Counts>) -> io::Result<()> {
    let (sender, mut lines) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let mut counts = counts.borrow_mut();
        match line.as_str() {
            "time" => {
                (counts.is_timed, counts.times) = (true, Vec::new());
                println!("timed");
            }
            "count" => println!("{}", counts.times.len()),
            "times" => {
                let mut times = std::mem::take(&mut counts.times);
                times.sort_unstable();
                let at = |share: f64| {
                    let index = (times.len() as f64 * share) as usize;
                    times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or(0)
                };
                println!("{} {} {} {}", times.len(), at(0.5), at(0.99), counts.gaps);
            }
            _ => return Err(io::Error::other(format!("not understood: {line}"))),
        }
        io::stdout().flush()?;
    }
    Ok(())
}

struct Connection {
    stream: TcpStream,
    /// The beginning of a frame that was not received to its end.
    rest: Vec<u8>,
    received: u64,
}

/// Connects, subscribes, and waits for the first frame.
async fn open(address: &str, session: usize) -> io::Result<Connection> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let request = format!(
        "GET /v1/live HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    if !head.starts_with(b"HTTP/1.1 101") {
        return Err(io::Error::other(String::from_utf8_lossy(&head).into_owned()));
    }
    let subscribe = format!(
        r#"{{"type":"subscribe","sessionId":"s{session}","view":"events","reducer":{}}}"#,
        threadfold_engine::REDUCER
    );
    stream.write_all(&client_frame(subscribe.as_bytes())).await?;
    let mut connection = Connection { stream, rest: Vec::new(), received: 0 };
    let mut chunk = vec![0; 4096];
    let mut is_first = false;
    while !is_first {
        let count = connection.stream.read(&mut chunk).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        connection.rest.extend_from_slice(&chunk[..count]);
        let rest = std::mem::take(&mut connection.rest);
        let used = each_frame(&rest, |_| is_first = true);
        connection.rest = rest[used..].to_vec();
    }
    Ok(connection)
}

/// Returns a text as a client's frame, with a mask of zeros.
fn client_frame(text: &[u8]) -> Vec<u8> {
    assert!(text.len() < 126, "the text is short");
    let mut frame = vec![0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
    frame.extend_from_slice(text);
    frame
}

async fn follow(mut connection: Connection, counts: Rc<RefCell<Counts>>) {
    while connection.stream.readable().await.is_ok() {
        let mut counts = counts.borrow_mut();
        let mut buffer = std::mem::take(&mut counts.buffer);
        let read = connection.stream.try_read(&mut buffer);
        match read {
            Ok(0) => {
                eprintln!("a client was disconnected");
                std::process::exit(1);
            }
            Ok(count) => connection.receive(&buffer[..count], &mut counts),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                eprintln!("a client was disconnected: {error}");
                std::process::exit(1);
            }
        }
        counts.buffer = buffer;
    }
}

impl Connection {
    fn receive(&mut self, bytes: &[u8], counts: &mut Counts) {
        if self.rest.is_empty() {
            let used = each_frame(bytes, |frame| counts.note(&mut self.received, frame));
            self.rest.extend_from_slice(&bytes[used..]);
            return;
        }
        self.rest.extend_from_slice(bytes);
        let mut rest = std::mem::take(&mut self.rest);
        let used = each_frame(&rest, |frame| counts.note(&mut self.received, frame));
        rest.drain(..used);
        self.rest = rest;
    }
}

impl Counts {
    fn note(&mut self, received: &mut u64, frame: &[u8]) {
        if !frame.starts_with(br#"{"type":"events""#) {
            self.gaps += usize::from(!frame.starts_with(br#"{"type":"heartbeat""#));
            return;
        }
        if self.is_timed
            && let Some(at) = memchr::memmem::find(frame, STAMP)
        {
            let digits = &frame[at + STAMP.len()..][..DIGITS];
            let sent = digits.iter().fold(0, |sum, it| sum * 10 + u64::from(it - b'0'));
            self.times.push(now().saturating_sub(sent));
        }
        *received += 1;
        if received.is_multiple_of(self.batch) {
            let index = (*received / self.batch - 1) as usize;
            if self.batches.len() <= index {
                self.batches.resize(index + 1, 0);
            }
            self.batches[index] += 1;
            if self.batches[index] == self.reading {
                println!("{DONE}{index}");
            }
        }
    }
}

/// Calls `note` with the content of each whole frame, and returns how many bytes they have.
fn each_frame(bytes: &[u8], mut note: impl FnMut(&[u8])) -> usize {
    let mut start = 0;
    loop {
        let rest = &bytes[start..];
        let [_, second, ..] = *rest else { return start };
        let (head, length) = match (second & 0x7f, rest) {
            (126, [_, _, high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
            (127, [_, _, length @ ..]) if length.len() >= 8 => {
                (10, length[..8].iter().fold(0, |sum, it| sum << 8 | usize::from(*it)))
            }
            (126 | 127, _) => return start,
            (length, _) => (2, usize::from(length)),
        };
        let Some(content) = rest.get(head..head + length) else { return start };
        note(content);
        start += head + length;
    }
}
