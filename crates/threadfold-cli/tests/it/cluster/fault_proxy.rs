//! Stands between a server and the database, and fails as networks do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A request of at least so many bytes writes something: reads and leases are shorter.
const WRITES: usize = 400;

/// A proxy in front of a database.
pub(crate) struct FaultProxy {
    pub(crate) address: SocketAddr,
    faults: Arc<Faults>,
}

struct Faults {
    /// Nothing passes, and nothing is closed.
    is_stalled: watch::Sender<bool>,
    /// The answer to the next write is dropped, with its connection.
    cuts_next: AtomicBool,
    cuts: AtomicU64,
}

impl FaultProxy {
    pub(crate) fn start(runtime: &Runtime, bind: SocketAddr, database: SocketAddr) -> Self {
        let listener = runtime.block_on(TcpListener::bind(bind)).unwrap();
        let address = listener.local_addr().unwrap();
        let faults = Arc::new(Faults {
            is_stalled: watch::Sender::new(false),
            cuts_next: AtomicBool::new(false),
            cuts: AtomicU64::new(0),
        });
        let shared = faults.clone();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, database, shared.clone()));
            }
        });
        Self { address, faults }
    }

    /// Drops the answer to the next write: it is committed, and its writer does not hear of it.
    pub(crate) fn cut_next_answer(&self) {
        self.faults.cuts_next.store(true, Ordering::SeqCst);
    }

    /// Returns how many answers were dropped.
    pub(crate) fn cuts(&self) -> u64 {
        self.faults.cuts.load(Ordering::SeqCst)
    }

    /// Holds everything back, or lets it pass again.
    pub(crate) fn stall(&self, is_stalled: bool) {
        self.faults.is_stalled.send_replace(is_stalled);
    }
}

async fn connect(client: TcpStream, database: SocketAddr, faults: Arc<Faults>) {
    pass(&faults).await;
    let Ok(server) = TcpStream::connect(database).await else { return };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let is_writing = Arc::new(AtomicBool::new(false));
    // Both ends are dropped as soon as one of them is closed or cut.
    tokio::select! {
        () = requests(from_client, to_server, &faults, &is_writing) => {}
        () = answers(from_server, to_client, &faults, &is_writing) => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    faults: &Faults,
    is_writing: &AtomicBool,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        pass(faults).await;
        is_writing.store(count >= WRITES, Ordering::SeqCst);
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    faults: &Faults,
    is_writing: &AtomicBool,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        pass(faults).await;
        if is_writing.load(Ordering::SeqCst) && faults.cuts_next.swap(false, Ordering::SeqCst) {
            faults.cuts.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Waits while everything is held back.
async fn pass(faults: &Faults) {
    let mut stalled = faults.is_stalled.subscribe();
    // The sender lives as long as the proxy.
    stalled.wait_for(|it| !it).await.ok();
}
