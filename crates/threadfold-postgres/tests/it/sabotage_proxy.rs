//! A proxy in front of the database that changes statements on their way.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// A text of a statement, and what it becomes. The second is not longer than the first.
pub(crate) type Change = (&'static str, &'static str);

/// A proxy that changes statements.
pub(crate) struct SabotageProxy {
    pub(crate) address: SocketAddr,
    changed: Arc<AtomicU64>,
}

impl SabotageProxy {
    pub(crate) fn start(database: SocketAddr, changes: &'static [Change]) -> Self {
        for (from, to) in changes {
            assert!(to.len() <= from.len(), "`{to}` is longer than `{from}`");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        let changed = Arc::new(AtomicU64::new(0));
        let count = changed.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let count = count.clone();
                thread::spawn(move || connect(client, database, changes, &count));
            }
        });
        Self { address, changed }
    }

    /// Returns how many statements were changed.
    pub(crate) fn changed(&self) -> u64 {
        self.changed.load(Ordering::SeqCst)
    }
}

fn connect(
    mut client: TcpStream,
    database: SocketAddr,
    changes: &[Change],
    count: &AtomicU64,
) -> Option<()> {
    let mut server = TcpStream::connect(database).ok()?;
    client.set_nodelay(true).ok()?;
    server.set_nodelay(true).ok()?;
    let (mut answers, mut answered) = (server.try_clone().ok()?, client.try_clone().ok()?);
    thread::spawn(move || std::io::copy(&mut answers, &mut answered));
    // The first message has no type.
    let mut header = vec![0; 4];
    client.read_exact(&mut header).ok()?;
    pass(&mut client, &mut server, header, |_| {})?;
    loop {
        let mut header = vec![0; 5];
        client.read_exact(&mut header).ok()?;
        let is_statement = matches!(header[0], b'P' | b'Q');
        pass(&mut client, &mut server, header, |body| {
            if is_statement && change(body, changes) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        })?;
    }
}

/// Passes one message on, whose header ends with its length.
fn pass(
    client: &mut TcpStream,
    server: &mut TcpStream,
    mut message: Vec<u8>,
    edit: impl FnOnce(&mut [u8]),
) -> Option<()> {
    let length = message.last_chunk::<4>().map(|it| u32::from_be_bytes(*it))?;
    let start = message.len();
    message.resize(start + usize::try_from(length).ok()?.checked_sub(4)?, 0);
    let body = &mut message[start..];
    client.read_exact(body).ok()?;
    edit(body);
    server.write_all(&message).ok()
}

/// Changes a statement in place, and returns whether there was anything to change.
fn change(body: &mut [u8], changes: &[Change]) -> bool {
    let mut is_changed = false;
    for (from, to) in changes {
        let mut start = 0;
        while let Some(found) =
            body[start..].windows(from.len()).position(|it| it == from.as_bytes())
        {
            let place = &mut body[start + found..start + found + from.len()];
            place.fill(b' ');
            place[..to.len()].copy_from_slice(to.as_bytes());
            start += found + from.len();
            is_changed = true;
        }
    }
    is_changed
}
